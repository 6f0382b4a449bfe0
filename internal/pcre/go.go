package pcre

import (
	"regexp"
	"regexp/syntax"
)

func parseGo(source string) (*syntax.Regexp, error) { return syntax.Parse(source, syntax.Perl) }

// compileGo compiles a translated pattern, nil if Go's engine cannot do what
// PCRE2 does. A $ outside multi-line mode also matches in front of a newline
// that ends the text; if nothing follows the $, taking the newline into the
// match is the same for yes and no, which exact tells. A ^ in multi-line mode
// does not match at the end of the text.
func compileGo(source string) (re *regexp.Regexp, exact bool) {
	tree, err := parseGo(source)
	if err != nil || !ahead(tree, 0) || emptyTurns(tree) {
		return nil, false
	}
	dollars, tail := widenDollars(tree, true)
	if !tail {
		return nil, false
	}
	if dollars > 0 {
		source = tree.String()
	}
	re, err = regexp.Compile(source)
	if err != nil {
		return nil, false
	}
	return re, dollars == 0
}

// widenDollars replaces each $ at a possible end of the match by \n?\z. It
// returns their number, and false if there is one elsewhere.
func widenDollars(re *syntax.Regexp, tail bool) (n int, ok bool) {
	if re.Op == syntax.OpEndText && re.Flags&syntax.WasDollar != 0 {
		newline := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\n'}}
		end := &syntax.Regexp{Op: syntax.OpEndText, Flags: re.Flags &^ syntax.WasDollar}
		*re = syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{
			{Op: syntax.OpQuest, Sub: []*syntax.Regexp{newline}}, end,
		}}
		return 1, tail
	}
	for i, sub := range re.Sub {
		at := tail
		switch re.Op {
		case syntax.OpConcat:
			at = tail && i == len(re.Sub)-1
		case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
			at = false
		}
		m, ok := widenDollars(sub, at)
		if n += m; !ok {
			return n, false
		}
	}
	return n, true
}

// ahead reports whether each ^ of multi-line mode is followed by a character;
// behind is the least number of them that follow re.
func ahead(re *syntax.Regexp, behind int) bool {
	switch re.Op {
	case syntax.OpBeginLine:
		return behind > 0
	case syntax.OpConcat:
		for i := len(re.Sub) - 1; i >= 0; i-- {
			if !ahead(re.Sub[i], behind) {
				return false
			}
			behind += least(re.Sub[i])
		}
		return true
	}
	for _, sub := range re.Sub {
		if !ahead(sub, behind) {
			return false
		}
	}
	return true
}

// least is the smallest number of characters that re matches, at most a few.
func least(re *syntax.Regexp) (n int) {
	switch re.Op {
	case syntax.OpLiteral, syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return least(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return least(re.Sub[0])
		}
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			n = max(n, least(sub))
		}
	case syntax.OpAlternate:
		n = least(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			n = min(n, least(sub))
		}
	}
	return n
}

// emptyTurns reports whether re repeats what may match nothing: the engines end
// such loops in different ways.
func emptyTurns(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		if least(re.Sub[0]) == 0 {
			return true
		}
	}
	for _, sub := range re.Sub {
		if emptyTurns(sub) {
			return true
		}
	}
	return false
}

func looksBack(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range re.Sub {
		if looksBack(sub) {
			return true
		}
	}
	return false
}
