package config

import (
	"fmt"
	"strings"
)

// Help is the text of --help: every option with its flag, its path and its
// default, by section.
func Help() string {
	var b strings.Builder
	b.WriteString("Options, each as a flag, in the file (--config) under its path, and in the environment as MAYFLY_ and the path\n(net.port is MAYFLY_NET_PORT). A flag wins over the environment, the environment over the file.\n")
	for _, s := range sections {
		fmt.Fprintf(&b, "\n%s\n", s.title)
		for i := range table {
			p := &table[i]
			if word, _, _ := strings.Cut(p.path, "."); word != s.prefix || p.help == "" {
				continue
			}
			name := "--" + p.flag
			if p.short != "" {
				name = "-" + p.short + ", " + name
			}
			fmt.Fprintf(&b, "  %-30s %s\n", name, p.help)
			where := p.path
			for _, alias := range p.aliases {
				if !strings.Contains(alias, ".") {
					where += ", also --" + alias
				}
			}
			if p.text != "" && !p.isBool() {
				where += ", default " + p.text
			}
			fmt.Fprintf(&b, "  %-30s   (%s)\n", "", where)
		}
	}
	return b.String()
}
