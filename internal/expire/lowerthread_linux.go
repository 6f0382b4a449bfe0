package expire

import "syscall"

// removalNice is by how much the threads of removal come after others. It is
// little: they still have a quarter of a processor for which others fight, so
// nobody waits long for a lock of theirs.
const removalNice = 5

// lowerThread lowers the priority of the calling thread. Where the system refuses,
// it stays. (Linux has a priority for each thread: setpriority(2).)
func lowerThread() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), removalNice)
}
