package expire

import (
	"time"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
)

// maxConcurrency bounds the collections that are worked on at once.
const maxConcurrency = 64

// Params are the server parameters of the monitor. (Names, defaults and ranges
// are those of MongoDB 8.0, except for the last group.)
type Params struct {
	Enabled       *command.BoolParam
	BatchDeletes  *command.BoolParam
	SleepSecs     *command.IntParam
	SubPassSecs   *command.IntParam
	IndexTimeMS   *command.IntParam
	IndexDocs     *command.IntParam
	LowPriority   *command.IntParam
	BatchDocs     *command.IntParam
	BatchTimeMS   *command.IntParam
	BatchDocBytes *command.IntParam

	// WakeWhenDue removes documents when they are due instead of in the next pass.
	// Concurrency is how many collections are worked on at once. Documents and
	// Bytes are budgets per second for all removal together; 0 is none.
	WakeWhenDue      *command.BoolParam
	Concurrency      *command.IntParam
	Documents, Bytes *command.IntParam
	// Windows lays collections that get a TTL index before their documents by
	// windows of expiry. (Mayfly's own.)
	Windows *command.BoolParam
	// Relayout changes filled collections to windows, or back, while they are in
	// use. (Mayfly's own.)
	Relayout *command.BoolParam
	// ListExpired lists in the oplog each document that is removed with a range.
	// (Mayfly's own.)
	ListExpired *command.BoolParam
}

// NewParams registers the parameters; wake is called when the time of the next
// pass has changed, and limit when a limit of removal has.
func NewParams(p *command.Params, wake, limit func()) *Params {
	atLeast := func(name string, value int64, long bool) *command.IntParam {
		return p.Int(command.IntSpec{Name: name, Default: value, HasMin: true, Long: long, OnChange: limit})
	}
	return &Params{
		Enabled:      p.Bool(command.BoolSpec{Name: "ttlMonitorEnabled", Default: true, OnChange: limit}),
		BatchDeletes: p.Bool(command.BoolSpec{Name: "ttlMonitorBatchDeletes", Default: true, OnChange: limit}),
		SleepSecs:    p.Int(command.IntSpec{Name: "ttlMonitorSleepSecs", Default: 60, Above: true, OnChange: wake}),
		SubPassSecs:  atLeast("ttlMonitorSubPassTargetSecs", 60, false),
		IndexTimeMS:  atLeast("ttlIndexDeleteTargetTimeMS", 1000, false),
		IndexDocs:    atLeast("ttlIndexDeleteTargetDocs", 50000, false),
		LowPriority:  atLeast("ttlCollLowPrioritySubpassLimit", 5, false),
		BatchDocs:    atLeast("batchedDeletesTargetBatchDocs", 10, true),
		BatchTimeMS:  atLeast("batchedDeletesTargetBatchTimeMS", 5, true),
		BatchDocBytes: p.Int(command.IntSpec{Name: "batchedDeletesTargetStagedDocBytes", Default: 2 << 20,
			HasMin: true, HasMax: true, Max: 1<<31 - 1, Long: true, OnChange: limit}),
		Relayout:    p.Bool(command.BoolSpec{Name: "expiryRelayout", Default: true, OnChange: limit}),
		WakeWhenDue: p.Bool(command.BoolSpec{Name: "ttlMonitorWakeWhenDue", Default: true}),
		Concurrency: p.Int(command.IntSpec{Name: "ttlMonitorConcurrentCollections", Default: 4, HasMin: true, Min: 1, HasMax: true, Max: maxConcurrency, OnChange: limit}),
		Documents:   atLeast("ttlMonitorDocumentsPerSecond", 0, true),
		Bytes:       atLeast("ttlMonitorBytesPerSecond", 0, true),
	}
}

// budget is the budget for all removal together.
func (p *Params) budget() schema.Budget {
	return schema.Budget{DocumentsPerSecond: p.Documents.Load(), BytesPerSecond: p.Bytes.Load()}
}

func (p *Params) sleep() time.Duration { return time.Duration(p.SleepSecs.Load()) * time.Second }
