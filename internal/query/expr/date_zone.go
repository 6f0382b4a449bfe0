package expr

import "strings"

// zoneAbbreviations are the names of time zones that the text of a date may
// have, in minutes east of UTC.
var zoneAbbreviations = map[string]int64{
	"utc": 0, "gmt": 0, "wet": 0, "z": 0, "uct": 0,
	"bst": 60, "cet": 60, "met": 60, "west": 60, "wat": 60, "cest": 120, "mest": 120, "eet": 120, "cat": 120, "sast": 120,
	"ist": 120, "eest": 180, "idt": 180, "msk": 180, "eat": 180, "msd": 240, "pkt": 300, "wib": 420, "wita": 480,
	"hkt": 480, "awst": 480, "jst": 540, "kst": 540, "wit": 540, "acst": 570, "aest": 600, "chst": 600,
	"acdt": 630, "aedt": 660, "sst": -660, "nzst": 720, "nzdt": 780,
	"nst": -210, "ndt": -150, "ast": -240, "adt": -180, "est": -300, "edt": -240, "cst": -360, "cdt": -300,
	"mst": -420, "mdt": -360, "pst": -480, "pdt": -420, "akst": -540, "akdt": -480, "hst": -600, "hdt": -540,
	// The letters of military time zones.
	"a": 60, "b": 120, "c": 180, "d": 240, "e": 300, "f": 360, "g": 420, "h": 480, "i": 540, "k": 600, "l": 660, "m": 720,
	"n": -60, "o": -120, "p": -180, "q": -240, "r": -300, "s": -360, "t": -420, "u": -480, "v": -540, "w": -600, "x": -660, "y": -720,
}

// setZone sets the time zone; a second one is a problem.
func (d *parsedDate) setZone(at int, kind zoneKind, offset int64, name string) {
	if d.zone != noZone {
		d.problem(at, "Double timezone specification")
		return
	}
	d.zone, d.offset, d.abbreviation = kind, offset, name
}

// takeZone reads an offset or the abbreviation of a zone.
func (d *parsedDate) takeZone(at int, s string) {
	name := strings.Trim(s, "()")
	sign := strings.IndexAny(name, "+-")
	if sign == 0 || sign == 3 && strings.EqualFold(name[:sign], "gmt") {
		d.setZone(at, offsetZone, correctionSeconds(name[sign:]), "")
		return
	}
	minutes, ok := zoneAbbreviations[strings.ToLower(name)]
	switch {
	case d.zone != noZone:
		d.problem(at, "Double timezone specification")
	case !ok:
		d.zone = namedZone
		d.problem(at, "passing a time zone identifier as part of the string is not allowed")
	default:
		d.setZone(at, namedZone, minutes*60, name)
	}
}

// correctionSeconds reads ±h, ±hh, ±hmm, ±hhmm and ±h:mm.
func correctionSeconds(s string) int64 {
	digits, minutes, colon := strings.Cut(s[1:], ":")
	if !colon && len(digits) > 2 {
		digits, minutes = digits[:len(digits)-2], digits[len(digits)-2:]
	}
	h, m := digitReader{rest: digits}, digitReader{rest: minutes}
	seconds := max(h.number(2), 0)*3600 + max(m.number(2), 0)*60
	if s[0] == '-' {
		return -seconds
	}
	return seconds
}
