// Package sdk pins the Cosmos DB SDK for Go, whose own emulator tests are run
// against Mayfly straight from its module (../run).
package sdk

import _ "github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
