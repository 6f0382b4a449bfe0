// Package licence tells the licences of modules by their texts.
package licence

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// permissive are the licences, by their SPDX names, of what may be in the server: they ask for
// their text to be shipped, and nothing else.
var permissive = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0", "ISC", "MIT", "Unlicense", "Zlib"}

// Permissive reports whether what has the licence may be shipped in the server.
func Permissive(name string) bool { return slices.Contains(permissive, name) }

// phrases are what only the text of a licence has, in small letters, words parted by single spaces.
// A text has the first licence of each group that fits it.
var phrases = [][]struct{ name, phrase string }{
	{
		{"AGPL", "gnu affero general public license version"}, {"LGPL", "gnu lesser general public license version"}, {"LGPL", "gnu library general public license version"},
		{"GPL", "gnu general public license version"}, {"GPL", "either version 2 of the license, or (at your option)"},
	},
	{{"SSPL", "server side public license"}},
	{{"BUSL", "business source license"}},
	{{"MPL-2.0", "mozilla public license version 2.0"}, {"MPL-2.0", "mozilla public license, version 2.0"}},
	{{"EPL", "eclipse public license"}},
	{{"Apache-2.0", "apache license version 2.0"}, {"Apache-2.0", "apache license, version 2.0"}},
	{{"MIT", "permission is hereby granted, free of charge, to any person obtaining a copy"}},
	{{"BSD-3-Clause", "be used to endorse or promote products derived from"}, {"BSD-2-Clause", "redistribution and use in source and binary forms, with or without modification"}},
	{{"ISC", "permission to use, copy, modify, and distribute this software for any purpose with or without fee is hereby granted"}, {"ISC", "permission to use, copy, modify, and/or distribute this software for any purpose with or without fee is hereby granted"}},
	{{"Unlicense", "this is free and unencumbered software released into the public domain"}},
	{{"CC0-1.0", "cc0 1.0 universal"}},
	{{"Zlib", "this software is provided 'as-is', without any express or implied warranty"}},
}

// Of returns the licences whose texts are in a text.
func Of(text string) (names []string) {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	for _, group := range phrases {
		for _, l := range group {
			if strings.Contains(text, l.phrase) {
				names = append(names, l.name)
				break
			}
		}
	}
	return names
}

// File is a file with a licence or a notice.
type File struct {
	Name, Text string
	Licences   []string // none for a notice
}

// Shippable returns the files of a module if it may be in the server. Errors: those of Files; a
// licence that is not permissive.
func Shippable(dir string) ([]File, error) {
	all, err := Files(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range all {
		for _, name := range f.Licences {
			if !Permissive(name) {
				return nil, fmt.Errorf("%s is %s, which may not be in the server", f.Name, name)
			}
		}
	}
	return all, nil
}

var (
	isLicence = regexp.MustCompile(`(?i)^(licen[sc]e|copying|unlicense)`)
	isNotice  = regexp.MustCompile(`(?i)^notice`)
)

// Files returns the licences and notices of the module in a directory, in the order of their
// names, but not that of a logo. Errors: that there is no licence, or one that is not known.
func Files(dir string) (all []File, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := false
	for _, e := range entries {
		licence := isLicence.MatchString(e.Name())
		if e.IsDir() || strings.Contains(strings.ToLower(e.Name()), "logo") || !licence && !isNotice.MatchString(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		f := File{Name: e.Name(), Text: string(b), Licences: Of(string(b))}
		if licence && len(f.Licences) == 0 {
			return nil, fmt.Errorf("%s has a licence that is not known: read it, and add it to packaging/licence", e.Name())
		}
		found = found || licence
		all = append(all, f)
	}
	if !found {
		return nil, fmt.Errorf("there is no licence")
	}
	return all, nil
}
