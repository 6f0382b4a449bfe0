package licence

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	for text, want := range map[string][]string{
		"Apache License\n     Version 2.0, January 2004":                                                                   {"Apache-2.0"},
		"Permission is hereby granted,\nfree of charge, to any\n person obtaining a copy":                                  {"MIT"},
		"Redistribution and use in source and binary forms, with or without modification, are":                             {"BSD-2-Clause"},
		"Redistribution and use in source and binary forms … may be used to endorse or promote products derived from this": {"BSD-3-Clause"},
		"GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3":                                                                    {"AGPL"},
		"GNU GENERAL PUBLIC LICENSE Version 2 … Apache License, Version 2.0":                                               {"GPL", "Apache-2.0"},
		"Server Side Public License\nVERSION 1":                                                                            {"SSPL"},
		"All rights reserved.":                                                                                             nil,
	} {
		if got := Of(text); !slices.Equal(got, want) {
			t.Errorf("%q has %v, want %v", text, got, want)
		}
	}
}

func TestShippable(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy"
	for _, c := range []struct {
		name  string
		files map[string]string
		ok    bool
	}{
		{"one", map[string]string{"LICENSE": mit, "NOTICE": "by somebody", "main.go": "SSPL"}, true},
		{"other spellings", map[string]string{"License.txt": mit}, true},
		{"none", map[string]string{"README": mit}, false},
		{"only a notice", map[string]string{"NOTICE": mit}, false},
		{"an unknown one", map[string]string{"COPYING": "Do what I say."}, false},
		{"two, one of them not for us", map[string]string{"LICENSE": mit, "LICENSE.other": "GNU General Public License Version 3"}, false},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Shippable(dir); err == nil != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
