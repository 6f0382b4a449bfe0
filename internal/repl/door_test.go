package repl

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestDoor: when the door closes, the context of each operation inside ends with the reason, be it
// one of the door's own or the operation's; who is inside enters again, and the door waits for all.
func TestDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d door
		op, end := context.WithCancelCause(context.WithValue(t.Context(), opTimeKey{}, 1))
		defer end(nil)
		first, leaveFirst, err := d.enterUnder(op, end)
		if err != nil {
			t.Fatal(err)
		}
		second, leaveSecond, err := d.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if first.Value(opTimeKey{}) != 1 {
			t.Error("the operation's values are lost")
		}
		within, stop := context.WithCancel(first)
		defer stop()
		again, leave, err := d.enter(within)
		if err != nil || again != within {
			t.Fatalf("who is inside does not enter again: %v", err)
		}
		leave()
		if first.Err() != nil || len(d.inside) != 2 {
			t.Fatalf("%v, %d inside", first.Err(), len(d.inside))
		}
		closed := make(chan bool)
		go func() { closed <- d.close(time.Minute) }()
		synctest.Wait()
		for _, ctx := range []context.Context{first, op, within, second} {
			if context.Cause(ctx) != errReplaced {
				t.Errorf("it goes on, or ended with %v", context.Cause(ctx))
			}
		}
		late, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := d.enterUnder(late, nil); err == nil {
			t.Error("a closed door lets an operation in")
		}
		leaveFirst()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("the door is closed although an operation is inside")
		default:
		}
		leaveSecond()
		if !<-closed {
			t.Error("an empty door does not close")
		}
		d.open()
		_, leave, err = d.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		leave()
	})
}
