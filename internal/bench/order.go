package bench

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// An order is what the rows of analysis ask about: a document of about
// documentBytes,
//
//	{_id, status, user, customer, amount, k, at, tags: [3 strings], note}
//
// with statuses of a low cardinality, users of a high one (two orders each),
// and an index on k. Each customer has orderPerCustomer orders; customers are a
// collection of their own, {_id, code, country, name}, with an index on code.
type order struct {
	ID       int64     `json:"_id"`
	Status   string    `json:"status"`
	User     string    `json:"user"`
	Customer int64     `json:"customer"`
	Amount   int64     `json:"amount"`
	K        int64     `json:"k"`
	At       int64     `json:"at"` // milliseconds since 1970
	Tags     [3]string `json:"tags"`
	Note     string    `json:"note"`
}

const (
	statuses         = 20
	ordersPerUser    = 2
	orderPerCustomer = 10
	tags             = 50
	countries        = 60
	// orderEpoch is the instant of the first order: the year 2023.
	orderEpoch = 1_672_531_200_000
)

// scatter is a number below 1<<32 for each id: unique, and in another order.
// Different odd factors give different orders.
func scatter(id int64, odd uint32) int64 { return int64(uint32(id) * odd) }

const (
	byAmount   = 0x85ebca6b
	byStatus   = 0xc2b2ae35
	byUser     = 0x27d4eb2f
	byCustomer = 0x165667b1
)

var orderNote = strings.Repeat("as good as new ", 5)

// newOrder is order id of n.
func newOrder(id, n int64) order {
	o := order{
		ID: id, K: indexKey(id), Amount: scatter(id, byAmount), At: orderEpoch + 1000*id,
		Status:   fmt.Sprintf("status-%02d", scatter(id, byStatus)>>8%statuses),
		User:     fmt.Sprintf("user%020d", scatter(id, byUser)%max(n/ordersPerUser, 1)),
		Customer: scatter(id, byCustomer) % customersOf(n),
		Note:     orderNote,
	}
	for i := range o.Tags {
		o.Tags[i] = fmt.Sprintf("tag-%02d", (scatter(id, byStatus)>>12+int64(17*i))%tags)
	}
	return o
}

func customersOf(n int64) int64 { return max(n/orderPerCustomer, 1) }

// bson is the order as the server gets it.
func (o *order) bson() bson.Doc {
	b := new(bson.Builder).Int64("_id", o.ID).String("status", o.Status).String("user", o.User).Int64("customer", o.Customer)
	b.Int64("amount", o.Amount).Int64("k", o.K).Date("at", o.At).Strings("tags", o.Tags[:]...)
	return b.String("note", o.Note).Finish()
}

// customer is a document that orders name by its code.
type customer struct {
	ID      int64  `json:"_id"`
	Code    int64  `json:"code"`
	Country string `json:"country"`
	Name    string `json:"name"`
}

func newCustomer(id int64) customer {
	return customer{id, id, fmt.Sprintf("country-%02d", scatter(id, byStatus)>>8%countries), fmt.Sprintf("customer number %d", id)}
}

func (c *customer) bson() bson.Doc {
	return new(bson.Builder).Int64("_id", c.ID).Int64("code", c.Code).String("country", c.Country).String("name", c.Name).Finish()
}

// asJSON is a document for jsonb. Structs of numbers and strings encode.
func asJSON(document any) json.RawMessage {
	b, _ := json.Marshal(document)
	return b
}
