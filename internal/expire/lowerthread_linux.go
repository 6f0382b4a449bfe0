package expire

import "syscall"

// removalNice is how much nicer the threads of removal are than others. It is
// little: they still get a quarter of a contended processor, so no client waits
// long for a lock that they hold.
const removalNice = 5

// lowerThread lowers the priority of the calling thread, unless the system
// refuses. (Linux has a priority for each thread: setpriority(2).)
func lowerThread() {
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), removalNice)
}
