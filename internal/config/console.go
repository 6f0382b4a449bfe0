package config

import "net"

// console checks the options of the console. What is sent to it in the clear, and what needs no
// login, stays on this machine.
func (l *loader) console() {
	o := &l.options.Console
	if !o.Enabled {
		return
	}
	if o.TLS && l.options.Net.TLS.Mode == TLSDisabled {
		l.fail("console.tls", "needs net.tls.mode, and its certificates")
	}
	for _, host := range o.BindIP {
		ip := net.ParseIP(host)
		if host == "localhost" || ip != nil && ip.IsLoopback() {
			continue
		}
		if !o.TLS {
			l.fail("console.bindIp", "at %s passwords would be sent in the clear: it needs console.tls", host)
		}
		if !l.options.Security.Authorization {
			l.fail("console.bindIp", "at %s everybody could read and change everything: it needs access control (security.authorization)", host)
		}
	}
}
