package doctor

import (
	"cmp"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	// Critical: clients are not served, or will not be in days; or the server is not right.
	Critical Severity = "critical"
	// Warning: something does not work as it was meant to.
	Warning Severity = "warning"
	// Notice: somebody should know.
	Notice Severity = "notice"
)

var severities = []Severity{Critical, Warning, Notice}

// Finding is something that is wrong.
type Finding struct {
	// Check is the name of the check, which a page of docs/operate/watch.md is about.
	Check string
	Severity
	// Where is the server, member, set, shard, collection or rule that it is about.
	Where string
	// Text says what is wrong, Do what to do about it.
	Text, Do string
	// Run are commands for that, for mongosh or a shell; none where there is no command.
	Run []string
}

// check is one thing that is looked at.
type check struct {
	name string
	find func(f *facts, found func(Finding))
}

// checks are all of them, in the order in which findings of one severity are told.
var checks = []check{
	{"unreachable", findUnreachable},
	{"no-primary", findNoPrimary},
	{"member-down", findMemberDown},
	{"one-failure", findOneFailure},
	{"invariant-broken", findInvariantBroken},
	{"disk-full", findDiskFull},
	{"disk-fills", findDiskFills},
	{"replication-lag", findReplicationLag},
	{"member-not-ready", findMemberNotReady},
	{"log-window", findLogWindow},
	{"streams-lost", findStreamsLost},
	{"clock-skew", findClockSkew},
	{"certificate", findCertificate},
	{"rule-removes-nothing", findRuleRemovesNothing},
	{"rule-behind", findRuleBehind},
	{"documents-without-date", findDocumentsWithoutDate},
	{"balancer-off", findBalancerOff},
	{"spread", findSpread},
	{"zone-without-shard", findZoneWithoutShard},
	{"draining", findDraining},
	{"backup-old", findBackupOld},
	{"connections", findConnections},
	{"index-unused", findIndexUnused},
	{"versions", findVersions},
	{"startup-warning", findStartupWarning},
	{"not-examined", findNotExamined},
}

// diagnose runs all checks: the worst findings come first.
func diagnose(f *facts) (all []Finding) {
	for _, c := range checks {
		c.find(f, func(one Finding) {
			one.Check = c.name
			all = append(all, one)
		})
	}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity))
	})
	return all
}
