package main

import (
	"fmt"
	"runtime"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/process"
)

func version([]string) int {
	fmt.Printf("mayfly %s (behaves as MongoDB %s, %s %s/%s)\n", config.Version, process.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return config.ExitClean
}
