// Package keystring turns BSON values into bytes whose order is the order of
// the values: bytes.Compare of two keys is bson.Compare of what is in them.
// Index entries, cluster keys and sort keys are made of them. Start reading at
// Append; the layout below is the one on disk.
//
// A key is a row of components, one for each field of the key pattern. A
// component is a tag and what the tag asks for. The component of a descending
// field has every bit inverted.
//
//	tag        value                    what follows
//	08         MinKey
//	10         undefined (and missing)
//	18         null
//	20         NaN
//	21         number ≤ -2^63           double, inverted
//	22 .. 29   -2^63 < number ≤ -1      whole part of 8 .. 1 bytes, inverted
//	2a         -1 < number < 0          double, inverted
//	2b         zero, of either sign
//	2c         0 < number < 1           double
//	2d .. 34   1 ≤ number < 2^63        whole part of 1 .. 8 bytes
//	35         2^63 ≤ number            double
//	40         string, symbol           text
//	48         object                   fields: class tag, name as text, component; 00
//	50         array                    components; 00
//	58         binary                   length, subtype, content
//	60         ObjectId                 12 bytes
//	68 69      false, true
//	70         date                     8 bytes, the sign bit inverted
//	78         timestamp                8 bytes
//	80         regular expression       pattern as text, options as text
//	88         DBPointer                length of the namespace, namespace, 12 bytes
//	90         JavaScript               text
//	98         JavaScript with scope    code as text, fields of the scope; 00
//	f8         MaxKey
//
// Integers are big-endian. Text is the bytes of the string, each 00 written as
// 01 01 and each 01 as 01 02, then 00. With a collation, text is the collator's
// key of the string instead. A length is a byte below f0, or f0+n and n+1
// bytes. A class tag is the first tag of the value's class.
//
// Numbers of all types that are equal have equal bytes. A "whole part" is the
// integer shifted left once; where the number has a fraction the bit that came
// free is 1 and the fraction follows: as many bits as a double with that whole
// part has left, and one more bit. A "double" is the bits of an IEEE 754
// double shifted left once, which has one free bit too. Either free bit says
// that the number is a decimal a little further from zero than what was written
// so far. It then follows entirely: the decimal exponent of its first digit
// plus 8000 in two bytes, its digits in pairs (00 to 99 written as 01 to 64,
// no pair of zeros at the end), and 00.
//
// Invariants:
//
//	order      bytes.Compare(Append(nil, a), Append(nil, b)) == bson.Compare(a, b)
//	prefix     no component is a prefix of another one, in either direction, so
//	           that Skip finds the end without any length in front
//	exact      the component and its type bits give the value back, bit by bit
//	           (but for bits that BSON comparison and MongoDB ignore: payloads of
//	           NaN, encodings of a decimal that are not canonical, names in arrays)
//
// Type bits are kept outside of the key, as they must not order it. They tell
// apart values that are equal, and are empty for the common ones; see
// AppendTypeBits.
package keystring
