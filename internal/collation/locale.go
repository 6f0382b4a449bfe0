package collation

import "strings"

// Simple is the locale of the simple collation: byte order.
const Simple = "simple"

// locales are the locales that a collation may name.
// (Manual, "Collation Locales and Default Parameters".)
var locales = func() map[string]bool {
	m := map[string]bool{}
	for _, l := range strings.Fields(`
		af am ar as az be bg bn bo bs bs_Cyrl ca ceb chr cs cy da de de_AT dsb dz ee el en en_US en_US_POSIX eo es et
		fa fa_AF fi fil fo fr fr_CA fy ga gl gu ha haw he hi hr hsb hu hy id ig is it ja ka kk kl km kn ko kok ky lb lkt
		ln lo lt lv mk ml mn mr ms mt my nb ne nl nn om or pa pl ps pt ro ru se si sk sl smn sq sr sr_Latn sv sw ta te th
		to tr ug uk ur uz vi wae wo xh yi yo zh zh_Hant zu root`) {
		m[l] = true
	}
	return m
}()

// variants are the orders a locale may name behind "@collation=".
var variants = map[string]bool{
	"standard": true, "search": true, "phonebook": true, "traditional": true, "pinyin": true, "stroke": true,
	"zhuyin": true, "unihan": true, "big5han": true, "gb2312han": true, "dictionary": true, "compat": true, "eor": true, "emoji": true,
}

// Valid reports whether a locale exists; suggestion is the one that was probably
// meant where it does not, or "".
func Valid(locale string) (ok bool, suggestion string) {
	base, keyword, has := strings.Cut(locale, "@")
	if has {
		name, value, _ := strings.Cut(keyword, "=")
		if name != "collation" || !variants[value] {
			return false, ""
		}
	}
	if locales[base] {
		return true, ""
	}
	language, _, _ := strings.Cut(strings.ReplaceAll(base, "-", "_"), "_")
	if language != base && locales[language] {
		return false, language
	}
	return false, ""
}
