// Draws the API documentation from openapi.json.

const routes = document.getElementById("routes");

try {
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error(`openapi.json: ${response.status}`);
  showApi(await response.json());
} catch (error) {
  routes.textContent = error.message;
}

function showApi(api) {
  document.getElementById("summary").textContent = `${api.info.summary} Version ${api.info.version}.`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, route] of Object.entries(methods)) {
      const tag = route.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(routeElement(api, path, method, route));
    }
  }
  routes.replaceChildren(...[...groups].flatMap(([tag, elements]) => [make("h2", tag), ...elements]));
}

function routeElement(api, path, method, route) {
  const element = make("details");
  element.append(make("summary", make("b", `${method.toUpperCase()} ${path}`), make("span", route.summary ?? "")));
  if (route.description) element.append(make("p", route.description));
  const parameters = route.parameters ?? [];
  if (parameters.length) {
    const rows = parameters.map(({ name, schema, description, required }) => [name, schema, description, required]);
    element.append(make("h3", "Query"), table(rows));
  }
  for (const [type, content] of Object.entries(route.requestBody?.content ?? {})) {
    element.append(make("h3", `Body, ${type}`), propertyTable(api, content.schema));
    if (type === "application/json" && !parameters.some(({ required }) => required)) {
      element.append(make("pre", curlExample(api, path, content)));
    }
  }
  const responses = Object.entries(route.responses ?? {}).map(([status, { description }]) =>
    make("tr", make("th", status), make("td", description ?? ""))
  );
  element.append(make("h3", "Responses"), make("table", ...responses));
  const success = route.responses?.["200"]?.content?.["application/json"]?.schema;
  const { properties, items } = resolve(api, success ?? {}); // some responses have no schema
  if (properties || items) element.append(propertyTable(api, success));
  return element;
}

function propertyTable(api, schema) {
  const object = resolve(api, schema ?? {});
  const required = new Set(object.required ?? []);
  const rows = Object.entries(object.properties ?? {}).map(([name, property]) => [
    name,
    property,
    property.description,
    required.has(name),
  ]);
  return rows.length ? table(rows) : make("p", typeName(object));
}

function table(rows) {
  return make(
    "table",
    ...rows.map(([name, schema, description, required]) =>
      make(
        "tr",
        make("th", make("code", name)),
        make("td", typeName(schema ?? {}) + (required ? ", required" : "")),
        make("td", description ?? ""),
      )
    ),
  );
}

/** Follows a $ref. */
function resolve(api, schema) {
  if (!schema.$ref) return schema;
  return schema.$ref.split("/").slice(1).reduce((object, name) => object[name], api);
}

function typeName(schema) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.anyOf) return schema.anyOf.map(typeName).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  const name = schema.type === "array" ? `list of ${typeName(schema.items ?? {})}` : schema.type ?? "any";
  return "default" in schema && schema.default !== null ? `${name} = ${JSON.stringify(schema.default)}` : name;
}

function curlExample(api, path, content) {
  const properties = Object.entries(resolve(api, content.schema ?? {}).properties ?? {});
  const examples = properties.filter(([, { examples }]) => examples).map(([name, { examples }]) => [name, examples[0]]);
  const body = JSON.stringify(content.example ?? Object.fromEntries(examples)).replaceAll("'", "'\\''");
  return `curl ${location.origin}${path} -H 'Content-Type: application/json' \\\n  -d '${body}'`;
}

/**
 * @param {string} name
 * @param {...(string | Node)} children
 */
function make(name, ...children) {
  const element = document.createElement(name);
  element.append(...children);
  return element;
}
