package command

// Session is one logical session of a client.
type Session struct {
	ID [16]byte
}
