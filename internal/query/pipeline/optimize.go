package pipeline

// Optimize returns a pipeline that answers the same and does less.
func (p *Pipeline) Optimize() *Pipeline { return p }
