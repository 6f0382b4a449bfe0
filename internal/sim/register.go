package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// RegisterKind is what an operation does with a register.
type RegisterKind uint8

// The kinds. A Swap sets the register where it has the value From, and is answered
// whether it had.
const (
	Read RegisterKind = iota
	Write
	Swap
)

// RegisterOp is one operation on one register, which begins with the value 0.
type RegisterOp struct {
	Client   int
	Key      int
	Kind     RegisterKind
	From, To int // of a Swap; To of a Write
	Value    int // that a Read was answered
	Swapped  bool
	Call     int64 // when it began and ended, in any unit
	Return   int64
	Unknown  bool // nobody knows whether it happened: it may still, later
}

func (o RegisterOp) String() string {
	switch o.Kind {
	case Read:
		return fmt.Sprintf("read %d = %d", o.Key, o.Value)
	case Write:
		return fmt.Sprintf("write %d := %d", o.Key, o.To)
	}
	return fmt.Sprintf("swap %d: %d to %d, %t", o.Key, o.From, o.To, o.Swapped)
}

var registers = porcupine.Model{
	Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
		keys := map[int]int{}
		var out [][]porcupine.Operation
		for _, op := range h {
			k := op.Input.(RegisterOp).Key
			i, ok := keys[k]
			if !ok {
				i = len(out)
				keys[k] = i
				out = append(out, nil)
			}
			out[i] = append(out[i], op)
		}
		return out
	},
	Init: func() any { return 0 },
	Step: func(state, input, _ any) (bool, any) {
		op, now := input.(RegisterOp), state.(int)
		switch {
		case op.Kind == Read:
			return op.Value == now, now
		case op.Kind == Write:
			return true, op.To
		case op.Unknown:
			if now == op.From {
				return true, op.To
			}
			return true, now
		case op.Swapped:
			return now == op.From, op.To
		}
		return now != op.From, now
	},
	DescribeOperation: func(input, _ any) string { return input.(RegisterOp).String() },
}

// CheckRegisters reports whether a history is linearizable: nil, or what is not. Reads
// that were not answered are left out by the caller. Giving up after the timeout
// counts as linearizable.
func CheckRegisters(history []RegisterOp, timeout time.Duration) error {
	var ops []porcupine.Operation
	for _, op := range history {
		end := op.Return
		if op.Unknown {
			end = math.MaxInt64
		}
		ops = append(ops, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Output: op, Return: end})
	}
	if r := porcupine.CheckOperationsTimeout(registers, ops, timeout); r != porcupine.Illegal {
		return nil
	}
	return fmt.Errorf("the history of the registers is not linearizable: %v", illegalKey(history, timeout))
}

// illegalKey finds the register that has no legal order, for the message.
func illegalKey(history []RegisterOp, timeout time.Duration) []RegisterOp {
	byKey := map[int][]RegisterOp{}
	for _, op := range history {
		byKey[op.Key] = append(byKey[op.Key], op)
	}
	for k := range byKey {
		var ops []porcupine.Operation
		for _, op := range byKey[k] {
			end := op.Return
			if op.Unknown {
				end = math.MaxInt64
			}
			ops = append(ops, porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Output: op, Return: end})
		}
		if porcupine.CheckOperationsTimeout(registers, ops, timeout) == porcupine.Illegal {
			return byKey[k]
		}
	}
	return nil
}
