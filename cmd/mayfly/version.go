package main

import (
	"fmt"
	"runtime"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/node"
)

func version([]string) int {
	fmt.Printf("mayfly %s (behaves as MongoDB %s, %s %s/%s)\n", config.Version, node.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return config.ExitClean
}
