package config

import "net/url"

// telemetry checks the options of traces. A URL with a password would stand in the log.
func (l *loader) telemetry() {
	o := &l.options.Telemetry
	if o.Endpoint == "" {
		return
	}
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		l.fail("telemetry.otlpEndpoint", "must be a URL, http://host:port or https://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		l.fail("telemetry.otlpEndpoint", "must be a URL without user, query and fragment; a token goes into the environment (OTEL_EXPORTER_OTLP_HEADERS)")
	}
	if o.Service == "" {
		l.fail("telemetry.otlpServiceName", "must not be empty")
	}
}
