package cosmos

import "net/http"

// handlers are the answers by what a path names and by method.
var handlers = map[kind]map[string]func(*request) error{
	kindAccount:    {http.MethodGet: (*request).getAccount},
	kindDatabases:  {http.MethodGet: (*request).listDatabases, http.MethodPost: (*request).postDatabases},
	kindDatabase:   {http.MethodGet: (*request).getDatabase, http.MethodDelete: (*request).deleteDatabase},
	kindContainers: {http.MethodGet: (*request).listContainers, http.MethodPost: (*request).postContainers},
	kindContainer: {
		http.MethodGet: (*request).getContainer, http.MethodPut: (*request).putContainer, http.MethodDelete: (*request).deleteContainer,
	},
	kindItems: {http.MethodGet: (*request).getItems, http.MethodPost: (*request).postItems},
	kindItem: {
		http.MethodGet: (*request).getItem, http.MethodPut: (*request).putItem, http.MethodPatch: (*request).patchItem,
		http.MethodDelete: (*request).deleteItem,
	},
	kindRanges:          {http.MethodGet: (*request).getRanges},
	kindOffers:          {http.MethodGet: (*request).listOffers, http.MethodPost: (*request).queryOffers},
	kindOffer:           {http.MethodGet: (*request).getOffer, http.MethodPut: (*request).putOffer},
	kindPartitionDelete: {http.MethodPost: (*request).deletePartition},
	kindScripts:         {http.MethodGet: (*request).listScripts},
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
	if r.path.kind == kindScripts {
		return newError(http.StatusForbidden, "%s are not supported by this account.", scriptNames[r.path.scripts])
	}
	return errMethod
}

// scriptNames are the kinds of resources that always have an empty feed here.
var scriptNames = map[string]string{
	"sprocs": "StoredProcedures", "triggers": "Triggers", "udfs": "UserDefinedFunctions", "conflicts": "Conflicts", "users": "Users", "permissions": "Permissions",
}

func (r *request) listScripts() error {
	parent := ""
	if r.path.container != "" {
		c, err := r.container()
		if err != nil {
			return err
		}
		parent = c.rid
	} else {
		d, err := r.database()
		if err != nil {
			return err
		}
		parent = d.rid
	}
	return r.sendFeed(parent, scriptNames[r.path.scripts], nil)
}
