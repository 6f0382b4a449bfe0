package cosmos

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
)

// handlers are the answers by what a path names and by method.
var handlers = map[kind]map[string]func(*request) error{
	kindAccount:    {http.MethodGet: (*request).getAccount},
	kindDatabases:  {http.MethodGet: (*request).listDatabases, http.MethodPost: (*request).postDatabases},
	kindDatabase:   {http.MethodGet: (*request).getDatabase, http.MethodDelete: (*request).deleteDatabase},
	kindContainers: {http.MethodGet: (*request).listContainers, http.MethodPost: (*request).postContainers},
	kindContainer: {
		http.MethodGet: (*request).getContainer, http.MethodPut: changing((*request).putContainer), http.MethodDelete: (*request).deleteContainer,
	},
	kindItems: {http.MethodGet: (*request).getItems, http.MethodPost: (*request).postItems},
	kindItem: {
		http.MethodGet: (*request).getItem, http.MethodPut: (*request).putItem, http.MethodPatch: (*request).patchItem,
		http.MethodDelete: (*request).deleteItem,
	},
	kindRanges:          {http.MethodGet: (*request).getRanges},
	kindOffers:          {http.MethodGet: (*request).listOffers, http.MethodPost: (*request).queryOffers},
	kindOffer:           {http.MethodGet: (*request).getOffer, http.MethodPut: changing((*request).putOffer)},
	kindPartitionDelete: {http.MethodPost: (*request).deletePartition},
	kindUsers:           {http.MethodGet: (*request).listUsers, http.MethodPost: changing((*request).postUsers)},
	kindUser:            {http.MethodGet: (*request).getUser, http.MethodPut: changing((*request).putUser), http.MethodDelete: (*request).deleteUser},
	kindPermissions:     {http.MethodGet: (*request).listPermissions, http.MethodPost: changing((*request).postPermissions)},
	kindPermission: {
		http.MethodGet: (*request).getPermission, http.MethodPut: changing((*request).putPermission), http.MethodDelete: (*request).deletePermission,
	},
	kindScripts: {http.MethodGet: (*request).listScripts, http.MethodPost: (*request).postScripts},
	kindScript:  {http.MethodGet: (*request).getScript, http.MethodPut: (*request).getScript, http.MethodDelete: (*request).getScript, http.MethodPost: (*request).getScript},
}

// route answers by the handler of a path and a method.
func (r *request) route() error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := handlers[r.path.kind][method]; ok {
		return h(r)
	}
	return errMethod
}

// changing is a handler that changes definitions by the request's body: one at
// a time.
func changing(f func(r *request, body bson.Doc) error) func(*request) error {
	return func(r *request) error {
		body, err := r.object()
		if err != nil {
			return err
		}
		r.s.registry.changes.Lock()
		defer r.s.registry.changes.Unlock()
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

// postScripts refuses scripts, which this server does not run, and answers
// queries for them. Errors: 403.
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

// getScript answers for one script: there is none. Errors: 404.
func (r *request) getScript() error {
	if _, err := r.container(); err != nil {
		return err
	}
	return errNotFound
}
