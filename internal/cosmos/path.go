package cosmos

import (
	"net/url"
	"strings"
)

// kind is the kind of resource that a path names.
type kind int

const (
	kindAccount kind = iota
	kindDatabases
	kindDatabase
	kindContainers
	kindContainer
	kindItems
	kindItem
	kindRanges
	kindOffers
	kindOffer
	kindPartitionDelete
	kindUsers
	kindUser
	kindPermissions
	kindPermission
	kindScripts // stored procedures and the like, which are not served
	kindScript
)

// path is a request's path, split and decoded.
type path struct {
	kind                kind
	db, container, item string
	offer               string
	user, permission    string
	resourceType, link  string // as they are signed
	scripts             string // which of scriptTypes
	byRID               bool   // resources are named by their resource ids (see resolve)
}

// scriptTypes are resources of a container that exist on the service and not
// here.
var scriptTypes = map[string]bool{"sprocs": true, "triggers": true, "udfs": true, "conflicts": true}

// parsePath reads an escaped path. It ignores empty segments, which some SDKs send.
// Errors: 400 if the path names no resource.
func parsePath(escaped string) (path, error) {
	names := make([]string, 0, 6)
	for seg := range strings.SplitSeq(escaped, "/") {
		if seg == "" {
			continue
		}
		name, err := url.PathUnescape(seg)
		if err != nil {
			return path{}, errURL
		}
		names = append(names, name)
	}
	p := path{}
	if len(names) == 0 {
		return p, nil
	}
	// A feed is signed with the link of its parent, a resource with its own.
	p.resourceType = names[len(names)-1]
	linked := names[:len(names)-1]
	if len(names)%2 == 0 {
		p.resourceType, linked = names[len(names)-2], names
	}
	p.link = strings.Join(linked, "/")
	return p.locate(names)
}

func (p path) locate(names []string) (path, error) {
	switch names[0] {
	case "offers":
		p.kind = kindOffers
		if len(names) == 2 {
			p.kind, p.offer, p.link = kindOffer, names[1], strings.ToLower(names[1])
		}
		if len(names) > 2 {
			return p, errURL
		}
		return p, nil
	case "dbs":
	default:
		return p, errURL
	}
	if len(names) > 1 {
		p.db = names[1]
	}
	if len(names) > 3 {
		p.container = names[3]
	}
	switch {
	case len(names) == 1:
		p.kind = kindDatabases
		return p, nil
	case len(names) == 2:
		p.kind = kindDatabase
		return p, nil
	case names[2] == "users":
		return p.locateUser(names[3:])
	case names[2] != "colls":
		return p, errURL
	case len(names) == 3:
		p.kind = kindContainers
		return p, nil
	case len(names) == 4:
		p.kind = kindContainer
		return p, nil
	}
	return p.locateInContainer(names[4:])
}

// locateUser reads the rest of a path after /dbs/d/users.
func (p path) locateUser(names []string) (path, error) {
	if len(names) > 0 {
		p.user = names[0]
	}
	switch {
	case len(names) == 0:
		p.kind = kindUsers
	case len(names) == 1:
		p.kind = kindUser
	case names[1] != "permissions" || len(names) > 3:
		return p, errURL
	case len(names) == 2:
		p.kind = kindPermissions
	default:
		p.kind, p.permission = kindPermission, names[2]
	}
	return p, nil
}

func (p path) locateInContainer(names []string) (path, error) {
	switch {
	case names[0] == "docs" && len(names) == 1:
		p.kind = kindItems
	case names[0] == "docs" && len(names) == 2:
		p.kind, p.item = kindItem, names[1]
	case names[0] == "pkranges" && len(names) <= 2:
		p.kind = kindRanges
	case names[0] == "operations" && len(names) == 2 && names[1] == "partitionkeydelete":
		p.kind, p.resourceType = kindPartitionDelete, "colls"
		p.link = "dbs/" + p.db + "/colls/" + p.container
	case scriptTypes[names[0]] && len(names) <= 2:
		p.kind, p.scripts = kindScripts, names[0]
		if len(names) == 2 {
			p.kind = kindScript
		}
	default:
		return p, errURL
	}
	return p, nil
}
