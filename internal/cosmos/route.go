package cosmos

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// endpoint is the target of a path and a method: the operation for the dispatcher, and
// the handler.
type endpoint struct {
	command *command.Command
	answer  func(*request) error
	query   *command.Command // the operation of a query, or nil
}

// reads, writes and defines declare the operations of this protocol: those that
// read items or definitions, those that write items, and those that change
// definitions.
func reads(name string, kind command.OpKind) *command.Command {
	return &command.Command{Name: name, Kind: kind, Flags: command.TakesReadConcern}
}

func writes(name string, kind command.OpKind) *command.Command {
	return &command.Command{Name: name, Kind: kind, Flags: command.Writes}
}

func defines(name string) *command.Command { return writes(name, command.KindCommand) }

func lists(name string) *command.Command { return reads(name, command.KindCommand) }

// The operations on items that have the same method and path.
var (
	createItem  = writes("createItem", command.KindInsert)
	upsertItem  = writes("upsertItem", command.KindUpdate)
	queryItems  = reads("queryItems", command.KindQuery)
	readItems   = reads("readItems", command.KindQuery)
	readChanges = reads("readChanges", command.KindQuery)
	// The operations of a batch are counted one by one.
	batchItems = &command.Command{Name: "batchItems", Flags: command.Writes | command.Uncounted}
	// refused is the endpoint for methods that a path does not support.
	refused = endpoint{command: lists("unsupported"), answer: func(*request) error { return errMethod }}
)

// endpoints has the endpoints by the kind of the path and the method.
var endpoints = map[kind]map[string]endpoint{
	kindAccount: {http.MethodGet: {command: lists("getAccount"), answer: (*request).getAccount}},
	kindDatabases: {
		http.MethodGet:  {command: lists("listDatabases"), answer: (*request).listDatabases},
		http.MethodPost: {command: defines("createDatabase"), answer: (*request).postDatabases, query: lists("queryDatabases")},
	},
	kindDatabase: {
		http.MethodGet: {command: lists("getDatabase"), answer: (*request).getDatabase},
		// An entry in its profile would create the database again.
		http.MethodDelete: {command: &command.Command{Name: "deleteDatabase", Flags: command.Writes | command.Unprofiled}, answer: (*request).deleteDatabase},
	},
	kindContainers: {
		http.MethodGet:  {command: lists("listContainers"), answer: (*request).listContainers},
		http.MethodPost: {command: defines("createContainer"), answer: (*request).postContainers, query: lists("queryContainers")},
	},
	kindContainer: {
		http.MethodGet:    {command: lists("getContainer"), answer: (*request).getContainer},
		http.MethodPut:    {command: defines("replaceContainer"), answer: changing((*request).putContainer)},
		http.MethodDelete: {command: defines("deleteContainer"), answer: (*request).deleteContainer},
	},
	kindItems: {
		http.MethodGet:  {command: readItems, answer: (*request).getItems},
		http.MethodPost: {command: createItem, answer: (*request).postItems, query: queryItems},
	},
	kindItem: {
		http.MethodGet:    {command: reads("readItem", command.KindQuery), answer: (*request).getItem},
		http.MethodPut:    {command: writes("replaceItem", command.KindUpdate), answer: (*request).putItem},
		http.MethodPatch:  {command: writes("patchItem", command.KindUpdate), answer: (*request).patchItem},
		http.MethodDelete: {command: writes("deleteItem", command.KindRemove), answer: (*request).deleteItem},
	},
	kindRanges: {http.MethodGet: {command: lists("readPartitionKeyRanges"), answer: (*request).getRanges}},
	kindOffers: {
		http.MethodGet:  {command: lists("listOffers"), answer: (*request).listOffers},
		http.MethodPost: {command: lists("queryOffers"), answer: (*request).queryOffers},
	},
	kindOffer: {
		http.MethodGet: {command: lists("getOffer"), answer: (*request).getOffer},
		http.MethodPut: {command: defines("replaceOffer"), answer: changing((*request).putOffer)},
	},
	kindPartitionDelete: {http.MethodPost: {command: writes("deletePartition", command.KindRemove), answer: (*request).deletePartition}},
	kindUsers: {
		http.MethodGet:  {command: lists("listUsers"), answer: (*request).listUsers},
		http.MethodPost: {command: defines("createUser"), answer: changing((*request).postUsers), query: lists("queryUsers")},
	},
	kindUser: {
		http.MethodGet:    {command: lists("getUser"), answer: (*request).getUser},
		http.MethodPut:    {command: defines("replaceUser"), answer: changing((*request).putUser)},
		http.MethodDelete: {command: defines("deleteUser"), answer: (*request).deleteUser},
	},
	kindPermissions: {
		http.MethodGet:  {command: lists("listPermissions"), answer: (*request).listPermissions},
		http.MethodPost: {command: defines("createPermission"), answer: changing((*request).postPermissions), query: lists("queryPermissions")},
	},
	kindPermission: {
		http.MethodGet:    {command: lists("getPermission"), answer: (*request).getPermission},
		http.MethodPut:    {command: defines("replacePermission"), answer: changing((*request).putPermission)},
		http.MethodDelete: {command: defines("deletePermission"), answer: (*request).deletePermission},
	},
	kindScripts: {
		http.MethodGet:  {command: lists("listScripts"), answer: (*request).listScripts},
		http.MethodPost: {command: lists("createScript"), answer: (*request).postScripts},
	},
	kindScript: {
		http.MethodGet: {command: lists("getScript"), answer: (*request).getScript}, http.MethodPut: {command: lists("replaceScript"), answer: (*request).getScript},
		http.MethodDelete: {command: lists("deleteScript"), answer: (*request).getScript}, http.MethodPost: {command: lists("runScript"), answer: (*request).getScript},
	},
}

// route returns the endpoint of a request, refused if there is none.
func (r *request) route() endpoint {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	e, ok := endpoints[r.path.kind][method]
	switch {
	case !ok:
		return refused
	case r.path.kind == kindItems:
		e.command = r.onItems(method)
	case e.query != nil && r.isQuery():
		e.command = e.query
	}
	return e
}

// onItems distinguishes the requests on a container's items, as postItems and getItems do.
func (r *request) onItems(method string) *command.Command {
	switch {
	case method == http.MethodGet && r.header("A-Im") != "":
		return readChanges
	case method == http.MethodGet:
		return readItems
	case r.isBatch():
		return batchItems
	case r.isQuery():
		return queryItems
	case r.flag("X-Ms-Documentdb-Is-Upsert"):
		return upsertItem
	}
	return createItem
}

// defining makes the request the only one that changes definitions, as registry.change does. Their
// times never go back.
func (r *request) defining() (leave func(), err error) {
	leave, err = r.s.registry.change(r.Context())
	r.written = r.s.clock.Stamped()
	return leave, err
}

// changing is a handler that changes definitions by the request's body, one at a time, or
// queries them.
func changing(f func(r *request, body bson.Doc) error) func(*request) error {
	return func(r *request) error {
		body, err := r.object()
		if err != nil {
			return err
		}
		if !r.onlyReads() {
			leave, err := r.defining()
			if err != nil {
				return err
			}
			defer leave()
		}
		return f(r, body)
	}
}

// scriptNames are the kinds of resources that always have an empty feed here.
var scriptNames = map[string]string{
	"sprocs": "StoredProcedures", "triggers": "Triggers", "udfs": "UserDefinedFunctions", "conflicts": "Conflicts",
}

func (r *request) listScripts() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	return r.sendFeed(c.rid, scriptNames[r.path.scripts], nil)
}

// postScripts rejects scripts, which this server does not run, and serves queries for
// them. Errors: 403.
func (r *request) postScripts() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	if !r.isQuery() {
		return newError(http.StatusForbidden, "%s are not supported by this account.", scriptNames[r.path.scripts])
	}
	body, err := r.object()
	if err != nil {
		return err
	}
	return r.queryResources(body, c.rid, scriptNames[r.path.scripts], nil)
}

// getScript responds for one script: there is none. Errors: 404.
func (r *request) getScript() error {
	if _, err := r.container(); err != nil {
		return err
	}
	return errNotFound
}
