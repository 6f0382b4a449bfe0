package nosql

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
)

// meter counts what a run takes: memory, and steps. It is shared by a run and the
// computed properties in it.
type meter struct {
	// memory is that of the operation; nil without accounting. kept are the bytes of ORDER
	// BY, GROUP BY and DISTINCT, made those of the values of the rows at hand.
	memory     *memory.Holding
	kept, made int
	// interrupted returns the error of a run that has been ended; nil if none can be.
	// It is called every checkEvery steps.
	interrupted func() error
	// A step is an element of a source, or some microseconds of a function's work. most
	// bounds them, 0 for no bound.
	steps, most uint
}

// work counts n steps, so that a run which takes many ends when it is told to.
func (m *meter) work(n uint) error {
	before := m.steps
	m.steps += n
	if m.steps/checkEvery == before/checkEvery {
		return nil
	}
	if m.most > 0 && m.steps > m.most {
		return failed("The evaluation takes more than %d steps.", m.most)
	}
	if m.interrupted == nil {
		return nil
	}
	return m.interrupted()
}

// weigh counts the work on some values at once.
func (m *meter) weigh(values ...bson.Value) error {
	n := 0
	for _, v := range values {
		n += len(v.Data)
	}
	if n < bytesPerStep {
		return nil
	}
	return m.work(uint(n / bytesPerStep))
}

// bytesPerStep is how many bytes of a value a function looks at in a step.
const bytesPerStep = 256

// makes counts a value of n bytes before it is made. It counts until its row is done,
// whether it is still needed or not.
func (m *meter) makes(n int) error {
	if m.made += n; m.made > maxMemory {
		return failed("The query makes values of more than %d bytes for one row.", maxMemory)
	}
	return m.book()
}

// keeps counts n bytes that are kept to the end of the run.
func (m *meter) keeps(n int) error {
	m.kept += n
	return m.book()
}

// book reserves the memory. What is kept is about as much again in the entry of a map, and
// what is made in a buffer that has just grown.
func (m *meter) book() error {
	if m.memory == nil {
		return nil
	}
	return m.memory.Set(2 * (m.kept + m.made))
}

// elementRoom is the memory of an array's element while it is looked at, besides its own
// bytes.
const elementRoom = 48

// room is the memory of values as elements of an array.
func room(vs []bson.Value) int {
	n := elementRoom * len(vs)
	for _, v := range vs {
		n += len(v.Data)
	}
	return n
}

// elements returns the elements of an array.
func (m *meter) elements(array bson.Value) ([]bson.Value, error) {
	if err := m.makes(elementRoom * array.Doc().Len()); err != nil {
		return nil, err
	}
	return array.Doc().Slice(), nil
}

// array makes an array.
func (m *meter) array(vs []bson.Value) (bson.Value, error) {
	if err := m.makes(room(vs)); err != nil {
		return bson.Value{}, err
	}
	return bson.Array(vs...), nil
}
