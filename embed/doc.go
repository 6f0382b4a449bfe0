// Package embed runs a Mayfly server within a Go program: in its tests above all, with the data
// in memory, and a clock that the test sets forward.
//
//	s, err := embed.Start(embed.Options{})
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(func() { _ = s.Stop() })
//	client, err := mongo.Connect(options.Client().ApplyURI(s.URI()))
//	// … sessions with a TTL index of a day are inserted …
//	err = s.Advance(ctx, 25*time.Hour) // and are gone when it returns
//
// Clients connect over TCP, on the loopback, as they do to any server; with Options.ReplicaSet
// they have transactions and change streams, too. Servers of one program are independent of each
// other, and each has its own clock.
//
// Start reading at embed.go.
package embed
