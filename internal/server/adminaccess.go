package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/config"
)

// CheckPassword returns the user whose password it is. Errors: 18, and what keeps it from
// finding out.
type CheckPassword func(ctx context.Context, remote, local string, name auth.UserName, password string) (*auth.Principal, error)

// adminRealm names the port to browsers.
const adminRealm = `Basic realm="mayfly admin", charset="UTF-8"`

// admitting lets requests through to next that one of admin.access lets in: a user needs the
// action. The others get 401 without what would have been the answer, or 403 where the user is
// who it says to be and may not.
func (s *Server) admitting(action auth.Action, next http.Handler) http.Handler {
	o := s.Options.Admin
	if slices.Contains(o.Access, config.AdminOpen) {
		return next
	}
	users := slices.Contains(o.Access, config.AdminUser)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains(o.Access, config.AdminCertificate) && r.TLS != nil && len(r.TLS.VerifiedChains) > 0,
			slices.Contains(o.Access, config.AdminToken) && hasToken(r, o.Token):
			next.ServeHTTP(w, r)
			return
		}
		code := http.StatusUnauthorized
		if name, password, given := r.BasicAuth(); users && given {
			code = s.adminUser(r, name, password, action)
		}
		switch code {
		case http.StatusOK:
			next.ServeHTTP(w, r)
			return
		case http.StatusUnauthorized:
			if users {
				w.Header().Add("WWW-Authenticate", adminRealm)
			}
		}
		http.Error(w, http.StatusText(code), code)
	})
}

// hasToken reports whether a request shows the token. The time it takes does not tell how
// much of it is right.
func hasToken(r *http.Request, token string) bool {
	shown, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(shown)), sha256.Sum256([]byte(token))
	return bearer && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// adminUser checks a user of the database admin, and whether it may do the action to this
// server; the result is the status of the answer. Users are known once the server serves.
func (s *Server) adminUser(r *http.Request, name, password string, action auth.Action) int {
	if s.state.Load().(string) != stateServing {
		return http.StatusServiceUnavailable
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	p, err := s.app.CheckPassword(r.Context(), r.RemoteAddr, addr(local), auth.UserName{User: name, DB: "admin"}, password)
	switch {
	case err != nil:
		return http.StatusUnauthorized
	case !p.May(auth.On(auth.Cluster, action)):
		return http.StatusForbidden
	}
	return http.StatusOK
}

// warnOfAdmin warns where the admin port gives away to others what only this machine should
// have: what it shows, or the secrets that are sent to it.
func (s *Server) warnOfAdmin(o config.Admin) {
	if !slices.ContainsFunc(o.BindIP, func(host string) bool {
		ip := net.ParseIP(host)
		return host != "localhost" && (ip == nil || !ip.IsLoopback())
	}) {
		return
	}
	if slices.Contains(o.Access, config.AdminOpen) {
		s.control.Warn("The admin port shows everybody the metrics of this server. Set admin.access", "id", logAdmin, "tags", []string{tagStartupWarning})
	} else if !o.TLS {
		s.control.Warn("Passwords and tokens are sent to the admin port in the clear. Set admin.tls", "id", logAdmin, "tags", []string{tagStartupWarning})
	}
}
