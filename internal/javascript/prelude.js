// The helpers of the server's JavaScript that need nothing but JavaScript. The
// manual describes them under "mongo shell methods" and in the examples of
// mapReduce and $where.
(function (global) {
	"use strict";

	const maxDepth = 100; // of what tojson prints

	function add(object, functions) {
		for (const name of Object.keys(functions)) {
			Object.defineProperty(object, name, { value: functions[name], writable: true, configurable: true, enumerable: false });
		}
	}

	function needArray(a, name) {
		if (!Array.isArray(a)) {
			throw new Error("The first argument to " + name + " must be an array");
		}
	}

	function sum(a) {
		needArray(a, "Array.sum");
		if (a.length === 0) {
			return null;
		}
		let total = a[0];
		for (let i = 1; i < a.length; i++) {
			total += a[i];
		}
		return total;
	}

	function avg(a) {
		needArray(a, "Array.avg");
		return a.length === 0 ? null : sum(a) / a.length;
	}

	add(Array, {
		contains: function (a, x) {
			needArray(a, "Array.contains");
			return a.indexOf(x) >= 0;
		},
		unique: function (a) {
			needArray(a, "Array.unique");
			return Array.from(new Set(a));
		},
		shuffle: function (a) {
			needArray(a, "Array.shuffle");
			for (let left = a.length; left > 1; left--) {
				const i = Math.floor(Math.random() * left), x = a[left - 1];
				a[left - 1] = a[i];
				a[i] = x;
			}
			return a;
		},
		sum: sum,
		avg: avg,
		stdDev: function (a) {
			needArray(a, "Array.stdDev");
			const mean = avg(a);
			let squares = 0;
			for (const x of a) {
				squares += (x - mean) * (x - mean);
			}
			return Math.sqrt(squares / a.length);
		},
		tojson: function (a, indent, nolint, depth) {
			needArray(a, "Array.tojson");
			return list(a, indent, nolint, depth || 0);
		},
	});

	// copy is a value that shares nothing that can change with v.
	function copy(v) {
		if (typeof v !== "object" || v === null || typeof v.tojson === "function" && !(v instanceof Date)) {
			return v;
		}
		if (v instanceof Date) {
			return new Date(v.getTime());
		}
		return Object.extend(Array.isArray(v) ? [] : {}, v, true);
	}

	// flat and bind replace built-in methods that go through what may be endless
	// without a stop.
	function flatten(to, from, depth) {
		for (let i = 0; i < from.length; i++) {
			if (i in from) {
				if (depth > 0 && Array.isArray(from[i])) {
					flatten(to, from[i], depth - 1);
				} else {
					to.push(from[i]);
				}
			}
		}
		return to;
	}

	add(Array.prototype, {
		flat: function (depth) {
			return flatten([], this, depth === undefined ? 1 : Number(depth) || 0);
		},
	});
	add(Function.prototype, {
		bind: function (self) {
			const f = this, first = Array.prototype.slice.call(arguments, 1);
			return function () {
				const all = first.concat(Array.prototype.slice.call(arguments));
				return new.target ? Reflect.construct(f, all) : Reflect.apply(f, self, all);
			};
		},
	});

	// stringify is JSON.stringify, which does not stop either.
	const quote = JSON.stringify;

	function primitive(v) {
		return v instanceof Number ? Number(v) : v instanceof String ? String(v) : v instanceof Boolean ? v.valueOf() : v;
	}

	function stringify(value, replacer, space) {
		const change = typeof replacer === "function" ? replacer : null;
		const only = Array.isArray(replacer) ? Array.from(new Set(replacer.map(String))) : null;
		space = primitive(space);
		const tab = typeof space === "number" ? " ".repeat(Math.max(0, Math.min(10, space))) : typeof space === "string" ? space.slice(0, 10) : "";
		const around = new Set();

		function wrap(open, parts, close, indent) {
			if (parts.length === 0) {
				return open + close;
			}
			const line = "\n" + indent;
			return tab ? open + line + tab + parts.join("," + line + tab) + line + close : open + parts.join(",") + close;
		}

		function nested(v, indent) {
			if (around.has(v)) {
				throw new TypeError("Converting circular structure to JSON");
			}
			around.add(v);
			const parts = [], array = Array.isArray(v);
			if (array) {
				for (let i = 0; i < v.length; i++) {
					const text = part(v, String(i), indent + tab);
					parts.push(text === undefined ? "null" : text);
				}
			} else {
				for (const name of only || Object.keys(v)) {
					const text = part(v, name, indent + tab);
					if (text !== undefined) {
						parts.push(quote(name) + (tab ? ": " : ":") + text);
					}
				}
			}
			around.delete(v);
			return array ? wrap("[", parts, "]", indent) : wrap("{", parts, "}", indent);
		}

		function part(holder, name, indent) {
			let v = holder[name];
			if (v !== null && v !== undefined && typeof v.toJSON === "function") {
				v = v.toJSON(name);
			}
			if (change) {
				v = change.call(holder, name, v);
			}
			v = primitive(v);
			switch (typeof v) {
				case "string":
					return quote(v);
				case "number":
					return isFinite(v) ? String(v) : "null";
				case "boolean":
					return String(v);
				case "object":
					return v === null ? "null" : nested(v, indent);
			}
			return undefined;
		}

		return part({ "": value }, "", "");
	}
	add(JSON, { stringify: stringify });

	add(Object, {
		extend: function (to, from, deep) {
			for (const name in from) {
				to[name] = deep ? copy(from[name]) : from[name];
			}
			return to;
		},
		merge: function (a, b, deep) {
			return Object.extend(Object.extend({}, a, deep), b, deep);
		},
		keySet: function (o) {
			const names = [];
			for (const name in o) {
				if (o[name] !== Object.getPrototypeOf(o)[name]) {
					names.push(name);
				}
			}
			return names;
		},
	});

	add(String.prototype, {
		ltrim: String.prototype.trimStart,
		rtrim: String.prototype.trimEnd,
		pad: function (length, right, filler) {
			return right ? this.padEnd(length, filler) : this.padStart(length, filler);
		},
	});

	add(Number.prototype, {
		toPercentStr: function () {
			return (this * 100).toFixed(2) + "%";
		},
		zeroPad: function (width) {
			return String(this).padStart(width, "0");
		},
	});

	add(RegExp, {
		escape: function (text) {
			return text.replace(/[\\^$.*+?()[\]{}|\-,#\s]/g, "\\$&");
		},
	});
	add(RegExp.prototype, { tojson: RegExp.prototype.toString });

	add(Date, {
		timeFunc: function (f, times) {
			const start = Date.now(), args = Array.prototype.slice.call(arguments, 2);
			for (let i = 0; i < (times || 1); i++) {
				f.apply(null, args);
			}
			return Date.now() - start;
		},
	});
	add(Date.prototype, {
		tojson: function () {
			if (isNaN(this.getTime())) {
				return 'ISODate("0NaN-NaN-NaNTNaN:NaN:NaNZ")';
			}
			return 'ISODate("' + this.toISOString().replace(".000", "") + '")';
		},
	});

	// ISODate takes a day, optionally a time with up to three parts and a fraction,
	// optionally a zone; dashes and colons may be left out.
	const isoDate = new RegExp("^(\\d{4})-?(\\d{2})-?(\\d{2})" +
		"(?:[T ](\\d{2})(?::?(\\d{2})(?::?(\\d{2}(?:\\.\\d+)?))?)?(Z|[+-]\\d{2}(?::?\\d{2})?)?)?$");
	const firstDate = -62167219200000, lastDate = 253402300799999; // the years 0000 to 9999

	function parseISODate(text) {
		if (!text) {
			return new Date();
		}
		const p = isoDate.exec(text);
		if (!p) {
			throw new Error("invalid ISO date: " + text);
		}
		const day = new Date(0);
		day.setUTCFullYear(+p[1], p[2] - 1, +p[3]);
		let ms = day.getTime() + (+p[4] || 0) * 3600000 + (+p[5] || 0) * 60000 + Math.round((+p[6] || 0) * 1000);
		if (p[7] && p[7] !== "Z") {
			const digits = p[7].replace(/\D/g, ""), minutes = +digits.slice(0, 2) * 60 + (+digits.slice(2) || 0);
			ms -= (p[7][0] === "-" ? -minutes : minutes) * 60000;
		}
		if (ms < firstDate || ms > lastDate) {
			throw new Error("invalid ISO date: " + text);
		}
		return new Date(ms);
	}

	// block joins the lines of an object or an array.
	function block(open, lines, close, indent, nolint, depth) {
		const pad = indent.repeat(depth), end = nolint ? " " : "\n";
		return open + end + lines.map((l) => pad + indent + l).join("," + end) + end + pad + close;
	}

	function unit(indent, nolint) {
		return nolint ? "" : indent || "\t";
	}

	function list(a, indent, nolint, depth) {
		if (depth > maxDepth) {
			return "[Array]";
		}
		if (a.length === 0) {
			return "[ ]";
		}
		const tab = unit(indent, nolint), lines = [];
		for (let i = 0; i < a.length; i++) {
			lines.push(tojson(a[i], tab, nolint, depth + 1));
		}
		return block("[", lines, "]", tab, nolint, depth);
	}

	function tojsonObject(x, indent, nolint, depth) {
		depth = depth || 0;
		if (typeof x.tojson === "function" && x.tojson !== tojson) {
			return x.tojson(indent, nolint, depth);
		}
		if (Array.isArray(x)) {
			return list(x, indent, nolint, depth);
		}
		if (x instanceof Set) {
			return "new Set(" + list(Array.from(x), indent, nolint, depth) + ")";
		}
		if (x instanceof Map) {
			return "new Map(" + list(Array.from(x.entries()), indent, nolint, depth) + ")";
		}
		if (x instanceof Error) {
			return "new " + x.name + "(" + JSON.stringify(x.message) + ")";
		}
		if (depth > maxDepth) {
			return "[Object]";
		}
		const tab = unit(indent, nolint), lines = [];
		for (const name in x) {
			lines.push('"' + name + '" : ' + tojson(x[name], tab, nolint, depth + 1));
		}
		return lines.length === 0 ? "{ }" : block("{", lines, "}", tab, nolint, depth);
	}

	// tojson prints a value as text that eval reads. A short object becomes one
	// line, unless nolint is false.
	function tojson(x, indent, nolint, depth) {
		switch (typeof x) {
			case "undefined":
				return "undefined";
			case "string":
				return JSON.stringify(x);
			case "number":
			case "boolean":
				return String(x);
			case "function":
				return x === MinKey ? '{ "$minKey" : 1 }' : x === MaxKey ? '{ "$maxKey" : 1 }' : x.toString();
			case "object": {
				if (x === null) {
					return "null";
				}
				const text = tojsonObject(x, indent || "", nolint, depth);
				const short = (nolint === undefined || nolint === null || nolint === true) && text.length < 80 && !indent;
				return short ? text.replace(/[\t\r\n]+/g, " ") : text;
			}
		}
		throw new Error("tojson can't handle type " + typeof x);
	}

	add(DBRef.prototype, {
		getDb: function () {
			return this.$db === null ? undefined : this.$db;
		},
		getCollection: function () {
			return this.$ref;
		},
		getRef: function () {
			return this.$ref;
		},
		getId: function () {
			return this.$id;
		},
		toString: function () {
			return "DBRef(" + tojson(this.$ref) + ", " + tojson(this.$id) + (this.$db ? ", " + tojson(this.$db) : "") + ")";
		},
		tojson: function () {
			return this.toString();
		},
	});

	function doassert(message) {
		throw new Error(typeof message === "function" ? message() : message);
	}

	function assert(condition, message) {
		if (!condition) {
			doassert("assert failed" + (message ? " : " + message : ""));
		}
	}

	// same says whether two values are equal, or print alike but for how an int is
	// written.
	function same(a, b) {
		const text = (x) => tojson(x, "", true).replace(/NumberInt\((-?\d+)\)/g, "$1");
		return a == b || a !== null && a !== undefined && b !== null && b !== undefined && text(a) === text(b);
	}

	// hold throws what an assertion has found, and the caller's message.
	function hold(holds, found, message) {
		if (!holds) {
			doassert(found + (message ? " : " + (typeof message === "function" ? message() : message) : ""));
		}
	}

	function pair(a, b) {
		return "[" + tojson(a) + "] and [" + tojson(b) + "]";
	}

	add(assert, {
		eq: function (a, b, message) {
			hold(same(a, b), pair(a, b) + " are not equal", message);
		},
		neq: function (a, b, message) {
			hold(!same(a, b), pair(a, b) + " are equal", message);
		},
		docEq: function (a, b, message) {
			hold(bsonWoCompare({ v: a }, { v: b }) === 0, pair(a, b) + " are not equal", message);
		},
		isnull: function (x, message) {
			hold(x === null || x === undefined, "supposed to be null [" + tojson(x) + "]", message);
		},
		lt: function (a, b, message) {
			hold(a < b, tojson(a) + " is not less than " + tojson(b), message);
		},
		lte: function (a, b, message) {
			hold(a <= b, tojson(a) + " is not less than or eq " + tojson(b), message);
		},
		gt: function (a, b, message) {
			hold(a > b, tojson(a) + " is not greater than " + tojson(b), message);
		},
		gte: function (a, b, message) {
			hold(a >= b, tojson(a) + " is not greater than or eq " + tojson(b), message);
		},
		contains: function (x, list, message) {
			hold(Array.from(list).some((y) => same(x, y)), tojson(x) + " was not in " + tojson(list), message);
		},
		includes: function (text, part, message) {
			hold(text.includes(part), "string [" + text + "] does not include [" + part + "]", message);
		},
		throws: function (f, args, message) {
			try {
				f.apply(null, args || []);
			} catch (e) {
				return e;
			}
			return doassert("did not throw exception" + (message ? " : " + message : ""));
		},
		doesNotThrow: function (f, args, message) {
			try {
				return f.apply(null, args || []);
			} catch (e) {
				return doassert("threw unexpected exception: " + e + (message ? " : " + message : ""));
			}
		},
	});

	add(global, {
		ISODate: parseISODate,
		tojson: tojson,
		tojsonObject: tojsonObject,
		tojsononeline: function (x) {
			return tojson(x, " ", true);
		},
		printjson: function (x) {
			print(tojson(x));
		},
		printjsononeline: function (x) {
			print(tojson(x, " ", true));
		},
		isString: function (x) {
			return typeof x === "string";
		},
		isNumber: function (x) {
			return typeof x === "number";
		},
		isObject: function (x) {
			return typeof x === "object";
		},
		doassert: doassert,
		assert: assert,
		gc: function () {},
	});
})(this);
