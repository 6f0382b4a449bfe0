package shardsvr

import "context"

// expectSnapshots answers {_shardsvrExpectSnapshots: 1}: a router's clients read several shards
// at one time. This member keeps states of before such times for a while.
func (r *request) expectSnapshots(context.Context) error {
	return r.s.node.Dispatcher.Member.Expect()
}
