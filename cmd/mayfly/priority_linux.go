package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// leastPriority is the niceness of who takes what others leave of the processors.
const leastPriority = 19

// lowerPriority gives the process the least priority: of all its threads, from which new ones have
// it. It does so twice, as some may have come meanwhile.
func lowerPriority() error {
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, leastPriority); err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
				return err
			}
		}
	}
	return nil
}
