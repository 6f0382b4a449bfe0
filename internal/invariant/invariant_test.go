package invariant

import "testing"

func TestBrokenAssertionIsCountedAndReported(t *testing.T) {
	var heard string
	SetReporter(func(message, stack string) {
		if stack == "" {
			t.Error("no stack")
		}
		heard = message
	})
	defer SetReporter(nil)
	defer func() {
		if panicked := recover() != nil; panicked != Enabled {
			t.Errorf("panicked %v, want %v", panicked, Enabled)
		}
		if Broken() != 1 || heard != "two is one" {
			t.Errorf("counted %d, heard %q", Broken(), heard)
		}
	}()
	if !Check(true, "one is one") || Broken() != 0 {
		t.Fatal("a holding assertion was counted")
	}
	Check(false, "two is one")
}
