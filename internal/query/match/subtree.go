package match

// FilterOf makes a filter of a part of another one's tree, as the planner
// leaves on a stage what its access path did not answer.
func FilterOf(n Node) *Filter { return &Filter{root: n} }
