package pcre

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"go.elara.ws/pcre/lib"
	"modernc.org/libc"
)

const (
	// matchLimit bounds the places to go back to that a match may note for each
	// place it begins at; mongod's PCRE2 is built with it.
	matchLimit = 200_000
	// heapLimit bounds the memory of those places, in KiB.
	heapLimit = 8 << 10
	// unwatchedSteps bounds a match of a pattern that is too large to be ended
	// by check, over all places it begins at.
	unwatchedSteps = 20_000_000
	// stepsPerCheck is how many items of a pattern are matched between two calls
	// of check; of a long text a single item may take long, so that each KiB
	// counts as another one.
	stepsPerCheck = 1024
	// keptSubject is the longest text that an idle matcher keeps room for.
	keptSubject = 64 << 10
	// maxIdle bounds the matchers that wait for work.
	maxIdle = 16
	// stack is what a match needs of its matcher's stack.
	stack = 32 << 10
)

// code is a pattern compiled by PCRE2. Matches only read it.
type code struct {
	address   uintptr
	groups    int
	unwatched bool // has no calls for the matcher's check
}

// matcher is what one match at a time writes to: nothing of it is shared, and
// what panics is thrown away whole.
type matcher struct {
	tls     *libc.TLS
	limits  uintptr // a match context
	data    uintptr // where a match puts its offsets
	pairs   int     // that data has room for
	out     uintptr // room for two numbers that PCRE2 answers with
	subject uintptr // the text or pattern, and a byte more
	length  int     // of the subject
	room    int     // for the subject
	callout func(*libc.TLS, uintptr, uintptr) int32

	check func() error
	steps int
	err   error // of check
}

// idle are the matchers that wait for work.
var idle = make(chan *matcher, maxIdle)

func takeMatcher() *matcher {
	select {
	case m := <-idle:
		return m
	default:
	}
	m := &matcher{tls: libc.NewTLS()}
	// A stack that is never empty is not given back between matches.
	m.tls.Alloc(stack)
	m.tls.Free(stack - 16)
	m.limits = lib.Xpcre2_match_context_create_8(m.tls, 0)
	lib.Xpcre2_set_heap_limit_8(m.tls, m.limits, heapLimit)
	m.out = libc.Xmalloc(m.tls, 16)
	m.callout = m.step
	lib.Xpcre2_set_callout_8(m.tls, m.limits, *(*uintptr)(unsafe.Pointer(&m.callout)), 0)
	return m
}

func (m *matcher) give() {
	m.check, m.err = nil, nil
	if m.room > keptSubject {
		m.freeSubject()
	}
	select {
	case idle <- m:
	default:
		m.freeData()
		m.freeSubject()
		libc.Xfree(m.tls, m.out)
		lib.Xpcre2_match_context_free_8(m.tls, m.limits)
		m.tls.Free(16)
		m.tls.Close()
	}
}

func (m *matcher) freeData() {
	if m.data != 0 {
		lib.Xpcre2_match_data_free_8(m.tls, m.data)
	}
	m.data, m.pairs = 0, 0
}

func (m *matcher) freeSubject() {
	libc.Xfree(m.tls, m.subject)
	m.subject, m.length, m.room = 0, 0, 0
}

// load makes s the subject.
func (m *matcher) load(s string) {
	if m.length = len(s); m.length >= m.room {
		m.freeSubject()
		m.length, m.room = len(s), max(len(s)+1, 1024)
		m.subject = libc.Xmalloc(m.tls, lib.Tsize_t(m.room))
	}
	copy(memory[byte](m.subject, m.length), s)
}

// step is called before each item of a pattern.
func (m *matcher) step(*libc.TLS, uintptr, uintptr) int32 {
	if m.steps += 1 + m.length>>10; m.steps < stepsPerCheck || m.check == nil {
		return 0
	}
	m.steps = 0
	if m.err = m.check(); m.err != nil {
		return lib.DPCRE2_ERROR_CALLOUT
	}
	return 0
}

// compileCode has PCRE2 compile a pattern; the error is its message.
func compileCode(pattern string, options uint32) (c *code, err error) {
	m := takeMatcher()
	defer caught(&err)()
	m.load(pattern)
	at := lib.Xpcre2_compile_8(m.tls, m.subject, lib.Tsize_t(m.length), options, m.out, m.out+8, 0)
	if at == 0 {
		err = errors.New(m.message(memory[int32](m.out, 1)[0]))
		m.give()
		return nil, err
	}
	lib.Xpcre2_pattern_info_8(m.tls, at, lib.DPCRE2_INFO_CAPTURECOUNT, m.out)
	c = &code{address: at, groups: int(memory[uint32](m.out, 1)[0])}
	m.give()
	runtime.AddCleanup(c, freeCode, at)
	return c, nil
}

func freeCode(at uintptr) {
	m := takeMatcher()
	lib.Xpcre2_code_free_8(m.tls, at)
	m.give()
}

// message is PCRE2's text for an error.
func (m *matcher) message(status int32) string {
	m.load(strings.Repeat(" ", 120))
	n := lib.Xpcre2_get_error_message_8(m.tls, status, m.subject, lib.Tsize_t(m.length))
	if n < 0 {
		return fmt.Sprintf("error %d", status)
	}
	return string(memory[byte](m.subject, int(n)))
}

// each calls yield with the offsets of one match after another, as All does,
// from the byte from on.
func (r *Regexp) each(s string, from int, check func() error, yield func(offsets []int) bool) (err error) {
	if err := r.backtracking(); err != nil {
		return err
	}
	m := takeMatcher()
	defer caught(&err)()
	m.load(s)
	m.check, m.steps = check, 0
	m.prepare(r.code)
	for first := true; err == nil && (first || from < len(s)); first = false {
		var at []int
		if at, err = m.match(r.code, from); err != nil || at == nil || !yield(at) {
			break
		}
		from = behind(s, at)
	}
	m.give()
	runtime.KeepAlive(r)
	return err
}

// prepare makes room for the offsets of a code's groups and sets the limit of
// steps.
func (m *matcher) prepare(c *code) {
	limit := matchLimit
	if c.unwatched {
		limit = min(limit, 1000+unwatchedSteps/(m.length+1))
	}
	lib.Xpcre2_set_match_limit_8(m.tls, m.limits, uint32(limit))
	if pairs := c.groups + 1; m.pairs < pairs || m.pairs > 4*pairs+64 {
		m.freeData()
		m.data, m.pairs = lib.Xpcre2_match_data_create_8(m.tls, uint32(pairs), 0), pairs
	}
}

// match returns the offsets of the first match of the subject at or behind from,
// or nil.
func (m *matcher) match(c *code, from int) ([]int, error) {
	status := lib.Xpcre2_match_8(m.tls, c.address, m.subject, lib.Tsize_t(m.length), lib.Tsize_t(from),
		lib.DPCRE2_NO_UTF_CHECK, m.data, m.limits)
	runtime.KeepAlive(m)
	switch {
	case status == lib.DPCRE2_ERROR_NOMATCH:
		return nil, nil
	case status == lib.DPCRE2_ERROR_CALLOUT && m.err != nil:
		return nil, m.err
	case status == lib.DPCRE2_ERROR_MATCHLIMIT || status == lib.DPCRE2_ERROR_HEAPLIMIT || status == lib.DPCRE2_ERROR_DEPTHLIMIT:
		return nil, ErrLimit
	case status < 0:
		return nil, MatchError(m.message(status))
	}
	ovector := memory[int](lib.Xpcre2_get_ovector_pointer_8(m.tls, m.data), 2*(c.groups+1))
	// Groups behind the last one that took part have nothing written.
	out := make([]int, len(ovector))
	for i := range out {
		if out[i] = -1; i < 2*int(status) {
			out[i] = ovector[i]
		}
	}
	return out, nil
}

// memory is n values at an address of PCRE2's memory, which is none of Go's.
func memory[T any](at uintptr, n int) []T {
	return unsafe.Slice(*(**T)(unsafe.Pointer(&at)), n)
}

// caught, called and deferred, makes a panic of the translated code an error of
// this match alone: faults of memory, too.
func caught(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if p := recover(); p != nil {
			*err = MatchError(fmt.Sprintf("internal error of the matcher: %v", p))
		}
	}
}
