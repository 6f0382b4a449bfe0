package cosmos

import (
	"crypto/hmac"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// maxSkew is the maximum difference between a request's date and the server's.
const maxSkew = 15 * time.Minute

var (
	errNoSignature = newError(http.StatusUnauthorized, "Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	errSignature   = newError(http.StatusUnauthorized, "The input authorization token can't serve the request. The wrong key is being used or the expected payload is not built as per the protocol.")
	errDate        = newError(http.StatusForbidden, "The authorization token is not valid at the current time. Please provide a valid date in the x-ms-date header.")
)

// authorize checks the signature of a request, and tells auditors of a wrong one. (Cosmos DB:
// "Access control in the Azure Cosmos DB REST API".) Errors: 401; 403 for a wrong date, and for
// what a token does not allow; 503 where auditors cannot be told.
func (r *request) authorize() error {
	kind, err := r.proved()
	if err != nil {
		return r.tellRefused(kind, err)
	}
	return nil
}

// proved returns by which kind of proof the request may be run. Errors: those of authorize.
func (r *request) proved() (kind string, err error) {
	if r.header("Authorization") == "" {
		return "none", errNoSignature
	}
	kind, signature := r.authorization()
	switch kind {
	case "master":
		return kind, r.checkMaster(signature)
	case "resource":
		return kind, r.checkResourceToken(signature)
	case "aad":
		return kind, r.checkToken(signature)
	}
	return "unknown", errSignature
}

// authorization reads the header.
func (r *request) authorization() (kind, signature string) {
	header := r.header("Authorization")
	if s, err := url.QueryUnescape(header); err == nil && strings.Contains(s, "type=") {
		// A client escapes plus signs in the signature; unescaped ones have become spaces.
		header = strings.ReplaceAll(s, " ", "+")
	}
	for p := range strings.SplitSeq(header, "&") {
		switch name, value, _ := strings.Cut(p, "="); name {
		case "type":
			kind = value
		case "sig":
			signature = value
		}
	}
	return kind, signature
}

// proves reports whether the request comes from who has a key or a token of the account, before
// it is known what its path names: authorize decides what it may do.
func (r *request) proves() bool {
	switch kind, signature := r.authorization(); kind {
	case "master":
		if r.signed(signature, r.path.link) == nil {
			return true
		}
		return r.signed(signature, r.path.linkByRID()) == nil
	case "resource":
		_, err := r.claims(signature)
		return err == nil
	case "aad":
		return r.checkToken(signature) == nil
	}
	return false
}

func (r *request) checkMaster(signature string) error {
	if err := r.checkID(); err != nil {
		return err
	}
	return r.signed(signature, r.path.link)
}

// signed checks a signature by the account's key, of a link. Errors: 401, 403.
func (r *request) signed(signature, link string) error {
	date := r.header("X-Ms-Date")
	if date == "" {
		date = r.header("Date")
	}
	at, lower, err := r.s.parseDate(date)
	if err != nil {
		return errSignature
	}
	if skew := r.now.Sub(at); skew > maxSkew || skew < -maxSkew {
		return errDate
	}
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(given, r.s.sign(r.Method, r.path.resourceType, link, lower)) {
		return errSignature
	}
	return nil
}

// requestDate is the date of a request, cached for others of the same second.
type requestDate struct {
	text, lower string
	at          time.Time
}

// parseDate reads a request's date; lower is in lower case, as it is signed.
func (s *Server) parseDate(text string) (at time.Time, lower string, err error) {
	d := s.dated.Load()
	if d == nil || d.text != text {
		if at, err = http.ParseTime(text); err != nil {
			return at, "", err
		}
		d = &requestDate{strings.Clone(text), strings.ToLower(text), at}
		s.dated.Store(d)
	}
	return d.at, d.lower, nil
}

// sign makes the signature of a request, of the date in lower case.
func (s *Server) sign(method, resourceType, link, date string) []byte {
	h := s.signers.Get().(*signer)
	defer s.signers.Put(h)
	text := append(appendLower(h.text[:0], method), '\n')
	text = append(appendLower(text, resourceType), '\n')
	text = append(append(append(append(text, link...), '\n'), date...), "\n\n"...)
	h.text = text
	h.Reset()
	h.Write(text) // never fails
	return h.Sum(nil)
}

// signer makes signatures with the account's key, and reuses its buffers.
type signer struct {
	hash.Hash
	text []byte
}

// appendLower appends s, which is ASCII where anything matches it, in lower case.
func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// checkID rejects, like the service's routing gateway, ids in the path that are
// ambiguous once decoded: 400 for control characters, 401 for others, since the
// signature is over another text there.
func (r *request) checkID() error {
	if r.path.kind != kindItem || r.compute || r.path.byRID {
		return nil
	}
	id := r.path.item
	switch {
	case strings.ContainsAny(id, "\r\n\t"):
		return errURL
	case strings.HasSuffix(id, " "), strings.ContainsAny(id, `/\#`), hasEscape(id):
		return errSignature
	}
	return nil
}

// hasEscape reports whether a decoded id still contains what looks like an escape.
func hasEscape(id string) bool {
	for i := range len(id) - 2 {
		if id[i] == '%' && strings.IndexByte("0123456789abcdefABCDEF", id[i+1]) >= 0 && strings.IndexByte("0123456789abcdefABCDEF", id[i+2]) >= 0 {
			return true
		}
	}
	return false
}

// checkToken takes a token of the emulator's kind: its third part is the
// account's key.
func (r *request) checkToken(token string) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return errSignature
	}
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[2], "="))
	if err != nil || subtle.ConstantTimeCompare(b, []byte(r.s.o.Key)) != 1 {
		return errSignature
	}
	return nil
}
