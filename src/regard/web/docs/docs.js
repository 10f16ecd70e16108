// The API's description, drawn from openapi.json; nothing comes from anywhere else.

const routes = document.getElementById("routes");

try {
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error(`openapi.json: ${response.status}`);
  draw(await response.json());
} catch (error) {
  routes.textContent = error.message;
}

function draw(api) {
  document.getElementById("summary").textContent = `${api.info.summary} Version ${api.info.version}.`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const name = route.tags?.[0] ?? "other";
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(drawn(api, path, method, route));
    }
  }
  routes.replaceChildren(...[...groups].flatMap(([name, all]) => [make("h2", name), ...all]));
}

function drawn(api, path, method, route) {
  const box = make("details");
  const line = make("summary", make("b", `${method.toUpperCase()} ${path}`), make("span", route.summary ?? ""));
  box.append(line);
  if (route.description) box.append(make("p", route.description));
  const asked = route.parameters ?? [];
  if (asked.length) {
    box.append(make("h3", "Query"), table(asked.map((one) => [one.name, one.schema, one.description, one.required])));
  }
  for (const [type, content] of Object.entries(route.requestBody?.content ?? {})) {
    box.append(make("h3", `Body, ${type}`), properties(api, content.schema));
    if (type === "application/json" && !route.parameters?.some((one) => one.required)) {
      box.append(make("pre", curl(api, path, content)));
    }
  }
  box.append(make("h3", "Answers"));
  const answers = Object.entries(route.responses ?? {}).map(([status, one]) =>
    make("tr", make("th", status), make("td", one.description ?? ""))
  );
  box.append(make("table", ...answers));
  const good = route.responses?.["200"]?.content?.["application/json"]?.schema;
  if (good) box.append(properties(api, good));
  return box;
}

function properties(api, schema) {
  const whole = resolved(api, schema ?? {});
  const required = new Set(whole.required ?? []);
  const rows = Object.entries(whole.properties ?? {}).map((
    [name, one],
  ) => [name, one, one.description, required.has(name)]);
  return rows.length ? table(rows, api) : make("p", kind(whole));
}

function table(rows) {
  return make(
    "table",
    ...rows.map(([name, schema, words, required]) =>
      make(
        "tr",
        make("th", make("code", name)),
        make("td", kind(schema ?? {}) + (required ? ", needed" : "")),
        make("td", words ?? ""),
      )
    ),
  );
}

function resolved(api, schema) {
  if (!schema.$ref) return schema;
  return schema.$ref.split("/").slice(1).reduce((at, name) => at[name], api);
}

function kind(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" or ");
  const name = schema.type === "array" ? `list of ${kind(schema.items ?? {})}` : schema.type ?? "any";
  return "default" in schema && schema.default !== null ? `${name} = ${JSON.stringify(schema.default)}` : name;
}

function curl(api, path, content) {
  const given = resolved(api, content.schema ?? {}).properties ?? {};
  const example = content.example ??
    Object.fromEntries(
      Object.entries(given).filter(([, one]) => one.examples).map(([name, one]) => [name, one.examples[0]]),
    );
  return `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${
    JSON.stringify(example).replaceAll("'", "'\\''")
  }'`;
}

function make(name, ...children) {
  const element = document.createElement(name);
  element.append(...children);
  return element;
}
