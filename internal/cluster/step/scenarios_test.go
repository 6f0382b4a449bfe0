package step_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/clustertest"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/shard"
)

const (
	events = "app.events"
	number = 7
)

var (
	generation = shard.Generation{Epoch: [12]byte{1}, Timestamp: 5 << 32}
	later      = shard.Generation{Epoch: [12]byte{2}, Timestamp: 6 << 32}
	key        = func() *shard.Key {
		k, err := shard.ParseKey(bson.MustParse(`{x: 1}`))
		if err != nil {
			panic(err)
		}
		return k
	}()
)

func at(g shard.Generation, major, minor uint32) shard.Version {
	return shard.Version{ShardGeneration: g, Major: major, Minor: minor}
}

func versionDoc(v shard.Version) bson.Doc {
	b := new(bson.Builder)
	v.Append(b, "v")
	return b.Finish().Lookup("v").Doc()
}

// versions are those of Told, shard by shard in the order of names.
func versions(v map[string]shard.Version) bson.Doc {
	b := new(bson.Builder).OpenDoc("versions")
	for _, s := range slices.Sorted(maps.Keys(v)) {
		b.Doc(s, versionDoc(v[s]))
	}
	return b.Close().Finish()
}

func uuid() bson.Value { return bson.Binary(4, clustertest.UUID(events)) }

// collection is app.events as a shard has it.
func collection(v shard.Version, docs ...bson.Doc) *clustertest.Collection {
	return &clustertest.Collection{UUID: uuidText(), Sharded: true, Key: key, Version: v, Docs: docs, Bytes: 1}
}

func uuidText() string {
	s := clustertest.New("")
	_, _ = s.Do(new(bson.Builder).String("_shardsvrCreateSharded", events).Value("uuid", uuid()).Doc("key", key.Pattern()).Doc("version", versionDoc(at(generation, 0, 0))).Finish())
	return s.Collections[events].UUID
}

func three(has map[string]*clustertest.Collection) func() []*clustertest.Shard {
	return func() (out []*clustertest.Shard) {
		for _, id := range []string{"a", "b", "c"} {
			s := clustertest.New(id)
			s.Identity = "cluster"
			if c := has[id]; c != nil {
				s.Collections[events] = c
			}
			out = append(out, s)
		}
		return out
	}
}

func operation(kind string, args *bson.Builder) step.Operation {
	o := step.Operation{Number: number, Kind: kind, Namespace: events, Phase: step.Trying, Args: args.Finish()}
	if step.StartsCommitted(kind) {
		o.Phase = step.Committed
	}
	return o
}

// nothing holds always.
func nothing(*world) error { return nil }

// everywhere checks each shard in the end, where the operation is committed and
// where it is not.
func everywhere(done, undone func(s *clustertest.Shard) error) func(w *world) error {
	return func(w *world) error {
		for _, s := range w.shards {
			check := undone
			if w.commit {
				check = done
			}
			if err := check(s); err != nil {
				return err
			}
		}
		return nil
	}
}

func scenarios() map[string]*scenario {
	return map[string]*scenario{
		"move": moveScenario(), "split": splitScenario(), "shardCollection": shardScenario(), "drop": dropScenario(), "dropDatabase": dropDatabaseScenario(),
		"createDatabase": createScenario(), "movePrimary": movePrimaryScenario(), "rename": renameScenario(), "refine": refineScenario(),
		"indexes": indexesScenario(), "untrack": untrackScenario(), "unshard": unshardScenario(), "addShard": addShardScenario(), "removeShard": removeShardScenario(),
		"reshard": reshardScenario(), "settings": settingsScenario(),
	}
}

func moveScenario() *scenario {
	old, own, given := at(generation, 3, 1), at(generation, 4, 0), at(generation, 4, 1)
	half := key.Doc(mustBound(`{x: 100}`))
	args := new(bson.Builder).String("from", "a").String("to", "b").String("host", "a").Doc("min", key.Doc(key.Min())).Doc("max", half).
		Value("uuid", uuid()).Doc("key", key.Pattern()).Bool("unique", false).
		OpenDoc("generation").ObjectID("epoch", generation.Epoch).Timestamp("timestamp", generation.Timestamp).Close()
	sc := &scenario{
		op: operation(step.KindMove, args), told: new(bson.Builder).Doc("own", versionDoc(own)).Doc("given", versionDoc(given)).Finish(),
		shards: three(map[string]*clustertest.Collection{"a": collection(old, bson.MustParse(`{_id: "first", x: 1}`))}),
		ns:     events, from: 0, to: 1, old: old, own: own, clients: true,
	}
	sc.holds = func(w *world) error {
		fromDonor, errDonor := w.shards[0].Read(events, old)
		fromRecipient, errRecipient := w.shards[1].Read(events, own)
		recipient := w.shards[1].Collections[events]
		switch {
		case errRecipient == nil && !w.commit:
			return errors.New("told: the recipient owns the range before the commit")
		case errDonor == nil && w.commit && errRecipient == nil:
			return errors.New("owned-once: both show the range")
		case errDonor == nil && int64(len(fromDonor)) != 1+w.written:
			return fmt.Errorf("complete: the donor shows %d of %d", len(fromDonor), 1+w.written)
		case errRecipient == nil && len(recipient.Hidden) == 0 && int64(len(fromRecipient)) != 1+w.written:
			return fmt.Errorf("complete: the recipient shows %d of %d", len(fromRecipient), 1+w.written)
		}
		return nil
	}
	sc.ended = func(w *world) error {
		a, b := w.shards[0].Collections[events], w.shards[1].Collections[events]
		switch {
		case a.Blocked != nil:
			return errors.New("the donor is blocked")
		case b != nil && len(b.Hidden) > 0:
			return errors.New("the recipient hides the range")
		case !w.commit && a.Version != old:
			return errors.New("undone, and the donor does not own the range")
		case !w.commit && b != nil && len(b.Docs) > 0:
			return errors.New("undone, and the recipient has documents")
		case w.commit && (a.Version != given || len(a.Hidden) != 1 || b.Version != own):
			return errors.New("done, and the range is not on the recipient alone")
		}
		return nil
	}
	return sc
}

func mustBound(text string) shard.Bound {
	b, ok := key.ParseBound(bson.MustParse(text))
	if !ok {
		panic(text)
	}
	return b
}

func splitScenario() *scenario {
	v := at(generation, 4, 5)
	return &scenario{
		op: operation(step.KindChunks, new(bson.Builder).Value("uuid", uuid()).Strings("shards", "a")), told: versions(map[string]shard.Version{"a": v}),
		shards: three(map[string]*clustertest.Collection{"a": collection(at(generation, 3, 1))}), holds: nothing,
		ended: func(w *world) error {
			if w.shards[0].Collections[events].Version != v {
				return errors.New("the shard has not the version")
			}
			return nil
		},
	}
}

func shardScenario() *scenario {
	told := versions(map[string]shard.Version{"a": at(generation, 1, 1), "b": at(generation, 1, 2), "c": at(generation, 0, 0)})
	return &scenario{
		op: operation(step.KindShardCollection, new(bson.Builder).String("primary", "c").Strings("shards", "a", "b", "c").
			Doc("key", key.Pattern()).Bool("unique", false).Doc("version", versionDoc(at(generation, 0, 0)))),
		told:   new(bson.Builder).Value("uuid", uuid()).Fields(told).Finish(),
		here:   map[string]bson.Doc{step.LayChunks: new(bson.Builder).Strings("owners", "a", "b").Finish()},
		shards: three(nil),
		holds: func(w *world) error {
			for _, s := range w.shards {
				if c := s.Collections[events]; c != nil && c.Version.Major > 0 && !w.commit {
					return errors.New("told: a shard owns chunks before the commit")
				}
			}
			return nil
		},
		ended: everywhere(func(s *clustertest.Shard) error {
			if c := s.Collections[events]; c == nil || s.ID != "c" && c.Version.Major != 1 {
				return fmt.Errorf("done, and %s does not know", s.ID)
			}
			return nil
		}, hasNot),
	}
}

// hasNot checks that a shard has no app.events.
func hasNot(s *clustertest.Shard) error {
	if s.Collections[events] != nil {
		return fmt.Errorf("%s has the collection", s.ID)
	}
	return nil
}

func onAll() func() []*clustertest.Shard {
	v := at(generation, 3, 1)
	return three(map[string]*clustertest.Collection{"a": collection(v), "b": collection(v)})
}

func dropScenario() *scenario {
	return &scenario{
		op: operation(step.KindDrop, new(bson.Builder).Strings("shards", "a", "b", "c").String("primary", "b").Value("uuid", uuid())), shards: onAll(),
		holds: nothing, ended: everywhere(hasNot, hasNot),
	}
}

func dropDatabaseScenario() *scenario {
	sc := dropScenario()
	sc.op = operation(step.KindDropDatabase, new(bson.Builder).Strings("shards", "a", "b", "c").String("primary", "b"))
	sc.op.Namespace = "app"
	return sc
}

func database(w *world, i int) clustertest.Database { return w.shards[i].Databases["app"] }

func createScenario() *scenario {
	sc := &scenario{
		op: operation(step.KindCreateDatabase, new(bson.Builder).String("primary", "a").String("version", "one")), shards: three(nil), holds: nothing,
		ended: func(w *world) error {
			if d := database(w, 0); !d.Primary || d.Version != "one" {
				return errors.New("the primary shard does not know")
			}
			return nil
		},
	}
	sc.op.Namespace = "app"
	return sc
}

func movePrimaryScenario() *scenario {
	plain := &clustertest.Collection{UUID: "plain", Docs: []bson.Doc{bson.MustParse(`{_id: 1}`)}}
	shards := three(map[string]*clustertest.Collection{"a": plain})
	sc := &scenario{
		op: operation(step.KindMovePrimary, new(bson.Builder).String("from", "a").String("to", "b").String("host", "a").String("version", "one").String("next", "two")),
		shards: func() []*clustertest.Shard {
			s := shards()
			s[0].Databases["app"] = clustertest.Database{Version: "one", Primary: true}
			return s
		},
		holds: func(w *world) error {
			a, b := database(w, 0), database(w, 1)
			if a.Primary && !a.Blocked && b.Primary {
				return errors.New("owned-once: both are primary")
			}
			if b.Primary && !w.commit {
				return errors.New("told: the recipient is primary before the commit")
			}
			return nil
		},
		ended: func(w *world) error {
			has := w.shards[0].Collections[events] != nil
			got := w.shards[1].Collections[events] != nil
			a, b := database(w, 0), database(w, 1)
			if w.commit && (has || !got || a.Primary || !b.Primary) || !w.commit && (!has || got || !a.Primary || a.Blocked || b.Primary) {
				return fmt.Errorf("committed %v, and donor %v %v, recipient %v %v", w.commit, a, has, b, got)
			}
			return nil
		},
	}
	sc.op.Namespace = "app"
	return sc
}

func renameScenario() *scenario {
	const target = "app.renamed"
	return &scenario{
		op:     operation(step.KindRename, new(bson.Builder).String("to", target).String("primary", "a").Strings("shards", "a", "b").Strings("former", "c").Value("uuid", uuid()).Bool("dropTarget", false).Doc("version", versionDoc(at(later, 0, 0)))),
		told:   versions(map[string]shard.Version{"a": at(later, 3, 1), "b": at(later, 3, 1)}),
		shards: three(map[string]*clustertest.Collection{"a": collection(at(generation, 3, 1)), "b": collection(at(generation, 3, 1)), "c": collection(at(generation, 0, 0))}),
		holds: func(w *world) error {
			_, errNew := w.shards[0].Read(target, at(later, 3, 1))
			_, errOld := w.shards[1].Read(events, at(generation, 3, 1))
			if errNew == nil && errOld == nil {
				return errors.New("owned-once: both names are answered")
			}
			return nil
		},
		ended: everywhere(func(s *clustertest.Shard) error {
			if s.ID != "c" && (s.Collections[target] == nil || s.Collections[target].Blocked != nil) {
				return errors.New("done, and it has not the new name")
			}
			return hasNot(s)
		}, unblocked),
	}
}

// unblocked checks that app.events is as it was.
func unblocked(s *clustertest.Shard) error {
	if c := s.Collections[events]; s.ID != "c" && (c == nil || c.Blocked != nil || c.Version != at(generation, 3, 1)) {
		return fmt.Errorf("undone, and %s is not as it was", s.ID)
	}
	return nil
}

func unshardScenario() *scenario {
	sc := refineScenario()
	sc.op.Kind = step.KindUnshard
	sc.op.Args = new(bson.Builder).Strings("shards", "a", "b").String("to", "a").Doc("key", bson.MustParse(`{x: 1, y: 1}`)).Bool("unsplittable", true).Finish()
	return sc
}

func untrackScenario() *scenario {
	docs := []bson.Doc{bson.MustParse(`{_id: 1, x: 1}`)}
	return &scenario{
		op: operation(step.KindUntrack, new(bson.Builder).String("primary", "a").Strings("others", "b", "c").Value("uuid", uuid()).Bool("unsplittable", true)),
		shards: three(map[string]*clustertest.Collection{
			"a": collection(at(generation, 3, 1), docs...), "b": collection(at(generation, 0, 0)),
		}),
		holds: nothing,
		ended: everywhere(func(s *clustertest.Shard) error {
			if s.ID != "a" {
				return hasNot(s)
			}
			if c := s.Collections[events]; c == nil || c.Sharded || len(c.Docs) != 1 {
				return errors.New("done, and the primary shard has not the collection as one that is not sharded")
			}
			return nil
		}, hasNot),
	}
}

func refineScenario() *scenario {
	refined := bson.MustParse(`{x: 1, y: 1}`)
	return &scenario{
		op:     operation(step.KindRefine, new(bson.Builder).Strings("shards", "a", "b").Doc("key", refined)),
		told:   versions(map[string]shard.Version{"a": at(later, 3, 1), "b": at(later, 3, 1)}),
		shards: onAll(), holds: nothing,
		ended: everywhere(func(s *clustertest.Shard) error {
			if c := s.Collections[events]; s.ID != "c" && (c.Blocked != nil || c.Key.String() == key.String() || c.Version.ShardGeneration != later) {
				return errors.New("done, and a shard has not the key")
			}
			return nil
		}, unblocked),
	}
}

func indexesScenario() *scenario {
	return &scenario{
		op: operation(step.KindIndexes, new(bson.Builder).Strings("shards", "a", "b").
			Doc("command", bson.MustParse(`{createIndexes: "events", indexes: [{key: {y: 1}, name: "y_1"}]}`)).
			OpenDoc("undo").Strings("a", "y_1").Strings("b", "y_1").Close()),
		shards: onAll(), holds: nothing,
		ended: everywhere(func(s *clustertest.Shard) error {
			if c := s.Collections[events]; c != nil && !slices.Equal(c.Indexes, []string{"y_1"}) {
				return errors.New("done, and a shard has not the index")
			}
			return nil
		}, func(s *clustertest.Shard) error {
			if c := s.Collections[events]; c != nil && len(c.Indexes) > 0 {
				return errors.New("undone, and a shard has the index")
			}
			return nil
		}),
	}
}

// blocked has the setting by which user writes are blocked, and how it was before.
var blocked = bson.MustParse(`{settings: [{of: "user_writes_critical_sections", id: "", is: {_id: "", blockUserWrites: true}}], before: [{of: "user_writes_critical_sections", id: ""}]}`)

func settingsScenario() *scenario {
	set := func(n int) func(*clustertest.Shard) error {
		return func(s *clustertest.Shard) error {
			if len(s.Settings) != n {
				return fmt.Errorf("%d settings instead of %d: %s", len(s.Settings), n, s)
			}
			return nil
		}
	}
	sc := &scenario{
		op:     operation(step.KindSettings, new(bson.Builder).Strings("shards", "a", "b", "c").Fields(blocked).Bool("ddl", true)),
		shards: three(nil), here: map[string]bson.Doc{step.AwaitDDL: bson.Empty, step.RestoreSettings: bson.Empty}, ended: everywhere(set(1), set(0)),
		holds: func(w *world) error { // from the commit on
			if !w.commit {
				return nil
			}
			return everywhere(set(1), nil)(w)
		},
	}
	sc.op.Namespace = "config"
	return sc
}

func addShardScenario() *scenario {
	sc := &scenario{
		op: operation(step.KindAddShard, new(bson.Builder).String("shard", "d").String("clusterId", "cluster").String("configdb", "cfg/h:1").
			OpenDoc("databases").String("old", "one").Close().Value("settings", blocked.Lookup("settings"))),
		shards: func() []*clustertest.Shard { return append(three(nil)(), clustertest.New("d")) },
		holds:  nothing,
		ended: func(w *world) error {
			d := w.shards[3]
			if w.commit != (d.Identity == "cluster") || w.commit != d.Databases["old"].Primary || w.commit != (len(d.Settings) == 1) {
				return fmt.Errorf("committed %v, and %s", w.commit, d)
			}
			return nil
		},
	}
	sc.op.Namespace = "d"
	return sc
}

func removeShardScenario() *scenario {
	sc := &scenario{
		op: operation(step.KindRemoveShard, new(bson.Builder).String("shard", "c").String("clusterId", "cluster").String("configdb", "cfg/h:1").Value("settings", blocked.Lookup("settings"))),
		shards: func() []*clustertest.Shard {
			all := three(nil)()
			all[2].Settings["user_writes_critical_sections "] = "it is"
			return all
		}, holds: nothing,
		ended: func(w *world) error {
			if w.commit != (w.shards[2].Identity == "") || w.commit != (len(w.shards[2].Settings) == 0) {
				return fmt.Errorf("committed %v, and %s", w.commit, w.shards[2])
			}
			return nil
		},
	}
	sc.op.Namespace = "c"
	return sc
}

// reshardScenario: a and b are the donors, and b gets all documents. More shards would be too
// many states.
func reshardScenario() *scenario {
	const to = "app.system.resharding.1"
	old, own := at(generation, 3, 1), at(later, 1, 1)
	next := bson.Binary(4, clustertest.UUID("next"))
	y, err := shard.ParseKey(bson.MustParse(`{y: 1}`))
	if err != nil {
		panic(err)
	}
	args := new(bson.Builder).Value("uuid", uuid()).String("to", to).Value("next", next).Doc("key", y.Pattern()).Bool("unique", false).
		Doc("version", versionDoc(at(later, 0, 0))).String("primary", "b").Strings("shards", "a", "b").Strings("others", "a", "b").
		OpenDoc("hosts").String("a", "a").String("b", "b").Close()
	ranges := new(bson.Builder).OpenArray("b").OpenDoc("0").Doc("min", y.Doc(y.Min())).Doc("max", y.Doc(y.Max())).Close().Close()
	sc := &scenario{
		op: operation(step.KindReshard, args), told: versions(map[string]shard.Version{"b": own}),
		here: map[string]bson.Doc{step.LayResharded: new(bson.Builder).Strings("owners", "b").Doc("ranges", ranges.Finish()).Finish()},
		shards: func() []*clustertest.Shard {
			all := three(map[string]*clustertest.Collection{"a": collection(old, bson.MustParse(`{_id: "first", x: 1}`)), "b": collection(old, bson.MustParse(`{_id: "second", x: 200}`))})()[:2]
			for _, s := range all {
				s.Copies = true
			}
			return all
		},
		ns: events, from: 0, to: 1, old: old, own: own, clients: true, wide: true,
	}
	sc.holds = func(w *world) error {
		onA, errA := w.shards[0].Read(events, old)
		onB, errB := w.shards[1].Read(events, old)
		onNew, errNew := w.shards[1].Read(events, own)
		switch {
		case errNew == nil && !w.commit:
			return errors.New("told: a recipient owns documents before the commit")
		case (errA == nil || errB == nil) && errNew == nil:
			return errors.New("owned-once: donors and recipients show the collection")
		case errA == nil && errB == nil && int64(len(onA)+len(onB)) != 2+w.written:
			return fmt.Errorf("complete: the donors show %d of %d", len(onA)+len(onB), 2+w.written)
		case errNew == nil && int64(len(onNew)) != 2+w.written:
			return fmt.Errorf("complete: the recipient shows %d of %d", len(onNew), 2+w.written)
		}
		return nil
	}
	sc.ended = func(w *world) error {
		for i, s := range w.shards {
			c := s.Collections[events]
			switch {
			case s.Collections[to] != nil:
				return fmt.Errorf("%s still has the copy", s.ID)
			case w.commit && (i == 0) != (c == nil), w.commit && c != nil && (c.Key.String() != y.String() || c.Version.ShardGeneration != later || c.UUID == uuidText()):
				return fmt.Errorf("done, and %s has %v", s.ID, c)
			case !w.commit && c == nil, !w.commit && (c.Blocked != nil || c.Version != old):
				return fmt.Errorf("undone, and %s has %v", s.ID, c)
			}
		}
		return nil
	}
	return sc
}
