package console

import (
	"context"
	"net/http"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxStreams bounds the pages that are told of samples.
	maxStreams = 64
	// eventTime is how long a reader may take for an event.
	eventTime = 10 * time.Second
)

// mayLook is the command that one must be allowed to run to see the samples. Its sections are
// those that cost nothing.
var mayLook = new(bson.Builder).Int32("serverStatus", 1).Int32("metrics", 0).Int32("repl", 0).Int32("mayfly", 0).
	Int32("catalogStats", 0).Int32("extra_info", 0).Int32("mem", 0).Finish()

// live sends what the sampler has, and then what it takes, as server-sent events: the names of the
// series, {series: [...]}, and samples. A reader that is slow gets those that are kept.
// Whether its user may see them is asked for each.
func (s *Server) live(w http.ResponseWriter, r *http.Request, _ *session) {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		fail(w, http.StatusServiceUnavailable, mongoerr.New(mongoerr.ExceededMemoryLimit, "%d pages look at the metrics already", maxStreams))
		return
	}
	defer s.streams.Add(-1)
	if refused := s.look(r.Context()); refused != nil {
		answer(w, refused)
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // the request has been read; its end is not the stream's
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	send := func(event string, d bson.Doc) {
		_, _ = w.Write([]byte("event: " + event + "\ndata: "))
		_, _ = w.Write(d.AppendJSON(nil, bson.RelaxedJSON))
		_, _ = w.Write([]byte("\n\n"))
	}
	names := new(bson.Builder).OpenArray("series")
	for i, one := range allSeries {
		names.String(bson.Index(i), one.name)
	}
	_ = out.SetWriteDeadline(time.Now().Add(eventTime))
	send("series", names.Close().Finish())
	seen := 0
	for {
		samples, all, more := s.sampler.since(seen)
		seen = all
		for i := range samples {
			send("sample", samples[i].document())
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		case <-more:
		}
		if s.session(r) == nil || s.look(r.Context()) != nil {
			return
		}
		_ = out.SetWriteDeadline(time.Now().Add(eventTime))
	}
}

// look returns nil if the client may see the samples, else why not.
func (s *Server) look(ctx context.Context) bson.Doc {
	reply := s.o.Dispatch(ctx, &command.Request{Client: command.ClientOf(ctx), DB: "admin", Body: mayLook})
	defer reply.Release()
	if reply.Body != nil && reply.Body.Lookup("ok").Truthy() {
		return nil
	}
	if reply.Body == nil {
		return command.ErrorReply(mongoerr.New(mongoerr.InterruptedAtShutdown, "the server ended the connection"))
	}
	return reply.Body.Clone()
}

// Sample samples the metrics until ctx ends.
func (s *Server) Sample(ctx context.Context) { s.sampler.run(ctx) }

// EndStreams ends what pages look at, and lets nobody begin.
func (s *Server) EndStreams() { s.stopped.Do(func() { close(s.stopping) }) }
