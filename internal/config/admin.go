package config

import "slices"

// minToken is the least length of a token: nobody guesses so many characters.
const minToken = 16

// admin checks the options of the admin port, and says what lets in where they do not.
func (l *loader) admin() {
	o := &l.options.Admin
	if o.TokenFile != "" {
		token, err := readOwnSecret(o.TokenFile)
		if err != nil {
			l.fail("admin.tokenFile", "%v", err)
		} else if len(token) < minToken {
			l.fail("admin.tokenFile", "%s has no token: at least %d characters", o.TokenFile, minToken)
		}
		o.Token = token
	}
	switch {
	case len(o.Access) > 0:
	case o.TokenFile != "":
		o.Access = []string{AdminToken}
	case l.options.Security.Authorization:
		o.Access = []string{AdminUser}
	default:
		o.Access = []string{AdminOpen}
	}
	if slices.Contains(o.Access, AdminOpen) && len(o.Access) > 1 {
		l.fail("admin.access", "open leaves nothing to ask for")
	}
	if slices.Contains(o.Access, AdminToken) != (o.TokenFile != "") {
		l.fail("admin.tokenFile", "goes with admin.access: token")
	}
	if slices.Contains(o.Access, AdminCertificate) && !o.TLS {
		l.fail("admin.access", "certificate needs admin.tls")
	}
	if o.TLS && l.options.Net.TLS.Mode == TLSDisabled {
		l.fail("admin.tls", "needs net.tls.mode, and its certificates")
	}
}
