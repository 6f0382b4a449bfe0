package certificate

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// attributeNames are the names of a subject's attributes, as OpenSSL and so mongod write
// them. (RFC 4514, section 3, and RFC 2985 for the address.)
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "street",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.17": "postalCode", "2.5.4.42": "GN", "2.5.4.43": "initials",
	"2.5.4.46": "dnQualifier", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC", "1.2.840.113549.1.9.1": "emailAddress",
}

// Subject is the name of a certificate's holder, the last attribute first:
// "CN=ann,OU=people,O=Example,C=SE". It is the name of an X.509 user. (RFC 4514.)
func Subject(c *x509.Certificate) (string, error) {
	var name pkix.RDNSequence
	if rest, err := asn1.Unmarshal(c.RawSubject, &name); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("the subject of the certificate is damaged: %w", err)
	}
	var b strings.Builder
	for i := len(name) - 1; i >= 0; i-- {
		if i < len(name)-1 {
			b.WriteByte(',')
		}
		for j, a := range name[i] {
			if j > 0 {
				b.WriteByte('+')
			}
			if err := writeAttribute(&b, a); err != nil {
				return "", err
			}
		}
	}
	return b.String(), nil
}

// writeAttribute writes one attribute. What has no name, or is no text, is written as the
// bytes of its encoding.
func writeAttribute(b *strings.Builder, a pkix.AttributeTypeAndValue) error {
	text, isText := a.Value.(string)
	known := attributeNames[a.Type.String()]
	if known != "" && isText {
		b.WriteString(known + "=" + escaped(text))
		return nil
	}
	der, err := asn1.Marshal(a.Value)
	if err != nil {
		return fmt.Errorf("the subject of the certificate has an attribute that cannot be written: %w", err)
	}
	if known == "" {
		known = a.Type.String()
	}
	b.WriteString(known + "=#" + hex.EncodeToString(der))
	return nil
}

// escaped is a value with its special characters escaped. (RFC 4514, section 2.4.)
func escaped(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case strings.ContainsRune(`,+"\<>;`, r), i == 0 && (r == ' ' || r == '#'), i == len(text)-1 && r == ' ':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ':
			fmt.Fprintf(&b, `\%02X`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// membership are the attributes by which members of a cluster know each other's
// certificates: all of O, OU and DC, sorted. (Manual: "Member Certificate Requirements".)
func membership(c *x509.Certificate) []string {
	var all []string
	for _, a := range c.Subject.Names {
		switch name := attributeNames[a.Type.String()]; name {
		case "O", "OU", "DC":
			all = append(all, fmt.Sprintf("%s=%v", name, a.Value))
		}
	}
	slices.Sort(all)
	return all
}
