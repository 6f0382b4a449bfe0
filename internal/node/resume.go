package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
)

// resume reads the arguments $_requestResumeToken, $_resumeAfter and $_startAt
// of a find, which let a scan continue after the end of an earlier one. Errors:
// 2, and 7738600 for ids of the other kind of collection.
func (q *query) resume(a *command.Args) error {
	after, at := a.Doc("$_resumeAfter"), a.Doc("$_startAt")
	if q.ResumeToken = a.Bool("$_requestResumeToken"); !q.ResumeToken {
		switch {
		case !after.IsEmpty():
			return mongoerr.New(mongoerr.BadValue, "'requestResumeToken' must be true if 'resumeAfter' is specified")
		case !at.IsEmpty():
			return mongoerr.New(mongoerr.BadValue, "'requestResumeToken' must be true if 'startAt' is specified")
		}
		return nil
	}
	if q.Hint.Type != bson.TypeDocument || !isForward(q.Hint.Doc()) {
		return mongoerr.New(mongoerr.BadValue, "hint must be {$natural:1} if 'requestResumeToken' is enabled")
	}
	if d := a.Doc("sort"); !d.IsEmpty() && !isForward(d) {
		return mongoerr.New(mongoerr.BadValue, "sort must be unset or {$natural:1} if 'requestResumeToken' is enabled")
	}
	name := "$_resumeAfter"
	switch {
	case after.IsEmpty() && at.IsEmpty():
		return nil
	case !after.IsEmpty() && !at.IsEmpty():
		return mongoerr.New(mongoerr.BadValue, "Cannot set both '$_resumeAfter' and '$_startAt'")
	case after.IsEmpty():
		name, after = "$_startAt", at
	}
	id := after.Lookup("$recordId")
	if after.Len() != 1 || id.Type != bson.TypeInt64 && id.Type != bson.TypeBinary && id.Type != bson.TypeNull {
		return mongoerr.New(mongoerr.BadValue,
			"Malformed resume token: the '%s' object must contain exactly one field named '$recordId', of type NumberLong, BinData or jstNULL.", name)
	}
	clustered := q.coll != nil && q.coll.Settings.Clustered != nil
	if clustered && id.Type == bson.TypeInt64 || !clustered && id.Type == bson.TypeBinary {
		return mongoerr.New(mongoerr.Code(7738600),
			"The '%s' parameter must match collection type. Clustered collections only have BinData recordIds, and all other collectionshave Long recordId.", name)
	}
	q.Resume = &exec.Resume{Record: id, Inclusive: name == "$_startAt"}
	return nil
}

// isForward reports whether d is {$natural: 1}.
func isForward(d bson.Doc) bool {
	name, v := d.First()
	return d.Len() == 1 && name == "$natural" && v.IsNumber() && bson.ToDouble(v) == 1
}
