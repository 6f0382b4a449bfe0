package cosmos

import "net/http"

// route picks the handler of a path and a method.
func (r *request) route() error {
	handlers := map[kind]map[string]func() error{
		kindAccount:    {http.MethodGet: r.getAccount},
		kindDatabases:  {http.MethodGet: r.listDatabases, http.MethodPost: r.postDatabases},
		kindDatabase:   {http.MethodGet: r.getDatabase, http.MethodDelete: r.deleteDatabase},
		kindContainers: {http.MethodGet: r.listContainers, http.MethodPost: r.postContainers},
		kindContainer:  {http.MethodGet: r.getContainer, http.MethodPut: r.putContainer, http.MethodDelete: r.deleteContainer},
		kindItems:      {http.MethodGet: r.getItems, http.MethodPost: r.postItems},
		kindItem: {
			http.MethodGet: r.getItem, http.MethodPut: r.putItem, http.MethodPatch: r.patchItem, http.MethodDelete: r.deleteItem,
		},
		kindRanges:          {http.MethodGet: r.getRanges},
		kindOffers:          {http.MethodGet: r.listOffers, http.MethodPost: r.queryOffers},
		kindOffer:           {http.MethodGet: r.getOffer, http.MethodPut: r.putOffer},
		kindPartitionDelete: {http.MethodPost: r.deletePartition},
		kindScripts:         {http.MethodGet: r.listScripts},
	}
	methods := handlers[r.path.kind]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if h, ok := methods[method]; ok {
		return h()
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
