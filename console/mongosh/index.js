// Expiry and balance in mongosh, as the console shows them: load("index.js"), or a snippet of .mongoshrc.js.
(() => {
  const collection = Object.getPrototypeOf(db.getCollection('mayfly'));
  const count = (n) => `${n} document${Number(n) === 1 ? '' : 's'}`;
  const expiryOf = (rule) => ({ storageEngine: { mayfly: { expiry: rule } } });

  // What a forecast says, in lines.
  const told = (f) => [
    `  due now: ${count(f.dueNow?.documents ?? 0)}`,
    ...(f.nextDue ? [`  next: ${f.nextDue.toISOString()}`] : []),
    ...(f.histogram?.hours?.length ? [`  in 24 hours: ${count(f.histogram.hours.reduce((n, h) => n + Number(h.documents), 0))}`] : []),
    ...(f.histogram?.days?.length ? [`  in 30 days: ${count(f.histogram.days.reduce((n, d) => n + Number(d.documents), 0))}`] : []),
  ];

  // Prints the rules of a collection: what is due, what comes, and why nothing leaves. Returns what $expiryStats said.
  collection.expiry = function () {
    const rules = this.aggregate([{ $expiryStats: {} }]).toArray();
    if (rules.length === 0) print(`${this.getFullName()}: no rule; nothing leaves by itself`);
    for (const r of rules) {
      print(`${r.rule}: ${r.expireAfterSeconds} s${r.paused ? ', paused' : ''}`);
      told(r).forEach((line) => print(line));
      (r.skipped ?? []).forEach((why) => print(`  nothing leaves: ${why}`));
    }
    return rules;
  };

  // Prints what a TTL index would do, and makes none. Returns the reply.
  collection.expiryDryRun = function (key, options) {
    const { storageEngine, ...rest } = options ?? {};
    const index = { key, name: Object.entries(key).flat().join('_'), ...rest, ...expiryOf({ ...storageEngine?.mayfly?.expiry, dryRun: true }) };
    const reply = this.getDB().runCommand({ createIndexes: this.getName(), indexes: [index] });
    if (!reply.ok) throw new Error(reply.errmsg);
    for (const f of reply.expiry ?? []) {
      print(`${index.name} would remove, were it made:`);
      told(f).forEach((line) => print(line));
    }
    return reply;
  };

  // Pauses the rules of a collection, or the one of a name. Returns the names of those that are paused now.
  collection.pauseExpiry = function (name) {
    const rules = this.aggregate([{ $expiryStats: {} }]).toArray().filter((r) => name === undefined || r.rule === name);
    if (rules.length === 0) throw new Error(`${this.getFullName()} has no ${name === undefined ? 'rule' : `rule ${name}`}`);
    for (const r of rules) {
      const own = r.kind === '_id' || r.rule === 'expireAfterSeconds';
      const pause = expiryOf({ paused: true });
      const reply = this.getDB().runCommand({ collMod: this.getName(), ...(own ? pause : { index: { name: r.rule, ...pause } }) });
      if (!reply.ok) throw new Error(`${r.rule}: ${reply.errmsg}`);
      print(`${r.rule}: paused`);
    }
    return rules.map((r) => r.rule);
  };

  // Prints which collections are not balanced, and why. Returns {namespace: why}, {} where all are.
  Object.getPrototypeOf(sh).whyNotBalanced = function () {
    const admin = db.getSiblingDB('admin'), config = db.getSiblingDB('config');
    const why = {};
    const status = admin.runCommand({ balancerStatus: 1 });
    if (!status.ok) throw new Error(status.errmsg);
    const off = status.mode === 'off' ? ' (the balancer is off)' : '';
    for (const c of config.collections.find({ dropped: { $ne: true } }).toArray()) {
      if (c._id === 'config.system.sessions') continue;
      const reply = admin.runCommand({ balancerCollectionStatus: c._id });
      if (reply.ok && !reply.balancerCompliant) why[c._id] = `${reply.firstComplianceViolation}${off}${c.noBalance ? ' (balancing is off for this collection)' : ''}`;
      else if (!reply.ok) why[c._id] = reply.errmsg;
    }
    Object.entries(why).forEach(([ns, reason]) => print(`${ns}: ${reason}`));
    if (Object.keys(why).length === 0) print(`all collections are balanced${off}`);
    return why;
  };
})();
