package config

import (
	"fmt"
	"strings"
)

// Help is the text of --help: every option that a router, or a server that is none,
// takes, with its flag, its path and its default, by section.
func Help(router bool) string {
	var b strings.Builder
	b.WriteString("Options, each as a flag, in the file (--config) under its path, and in the environment as MAYFLY_ and the path\n(net.port is MAYFLY_NET_PORT). A flag wins over the environment, the environment over the file.\n")
	for _, s := range sections {
		title := "\n" + s.title + "\n" // empty once it is written
		for i := range table {
			p := &table[i]
			if word, _, _ := strings.Cut(p.path, "."); word != s.prefix || p.help == "" || p.excluded(router) != "" {
				continue
			}
			b.WriteString(title)
			title = ""
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
