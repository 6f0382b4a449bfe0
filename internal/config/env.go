package config

import (
	"slices"
	"strings"
)

const envPrefix = "MAYFLY_"

// env reads the environment. A variable below a section that we know and an
// option that we do not is a mistake; other variables with our prefix are
// set by others (Kubernetes sets MAYFLY_SERVICE_HOST and the like).
func (l *loader) env() []given {
	env := slices.Clone(l.in.Env)
	slices.Sort(env)
	var all []given
	for _, line := range env {
		name, value, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		if i := slices.IndexFunc(table, func(p option) bool { return p.env() == name }); i >= 0 {
			all = append(all, l.fromEnv(&table[i], name, value)...)
			continue
		}
		for _, s := range sections {
			if strings.HasPrefix(name, envName(s.prefix)+"_") {
				l.fail(name, "unknown option")
				break
			}
		}
	}
	return all
}

// fromEnv takes one variable; parameters are separated by semicolons.
func (l *loader) fromEnv(p *option, name, value string) []given {
	if p.path != "setParameter" {
		return []given{{option: p, text: value, place: name}}
	}
	var all []given
	for _, part := range strings.Split(value, ";") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, given{option: p, text: part, place: name})
		}
	}
	return l.once(parameters(l, all))
}
