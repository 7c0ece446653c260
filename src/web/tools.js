// Tools that the model may call: a few that run here, and those that the user defines and answers by hand.
function calculate(text) {
  // A reader of its own: the page's policy forbids eval, and rightly so.
  const tokens = String(text).match(/\d+\.?\d*(?:e[+-]?\d+)?|\.\d+|[-+*/^()%]|\S/gi) ?? [];
  let at = 0, depth = 0;
  const value = () => {
    if (++depth > 100) throw new Error('nested too deeply');
    let result;
    const token = tokens[at++];
    if (token === '-') result = -value();
    else if (token === '(') {
      result = sum();
      if (tokens[at++] !== ')') throw new Error('a bracket is not closed');
    } else if (/^[\d.]/.test(token ?? '')) result = Number(token);
    else throw new Error(token === undefined ? 'something is missing at the end' : `'${token}' is no number`);
    if (tokens[at] === '^') { ++at; result **= value(); }
    --depth;
    return result;
  };
  const product = () => {
    let result = value();
    while ('*/%'.includes(tokens[at] ?? ' ')) {
      const sign = tokens[at++], right = value();
      result = sign === '*' ? result * right : sign === '/' ? result / right : result % right;
    }
    return result;
  };
  const sum = () => {
    let result = product();
    while ('+-'.includes(tokens[at] ?? ' ')) result += tokens[at++] === '+' ? product() : -product();
    return result;
  };
  const result = sum();
  if (at < tokens.length) throw new Error(`'${tokens[at]}' comes unexpected`);
  return result;
}

// The same weather for the same place, whatever is asked.
function weather(place) {
  let hash = 7;
  for (const letter of String(place)) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
  return { temperature: hash % 35 - 5, sky: ['sunny', 'cloudy', 'rainy', 'windy'][hash % 4] };
}

const kDemo = {
  get_weather: {
    description: 'Get the weather in a city.',
    parameters: { type: 'object', required: ['location'], properties: { location: { type: 'string', description: 'The city' } } },
    run: ({ location }) => weather(location),
  },
  calculate: {
    description: 'Calculate an arithmetic expression.',
    parameters: { type: 'object', required: ['expression'], properties: { expression: { type: 'string', description: 'Such as (2 + 3) * 4' } } },
    run: ({ expression }) => ({ result: calculate(expression) }),
  },
  get_time: {
    description: 'Get the current date and time.',
    parameters: { type: 'object', properties: {} },
    run: () => ({ time: new Date().toString() }),
  },
};

const asTool = (name, { description, parameters }) =>
  ({ type: 'function', function: { name, description, parameters } });

export const demoTools = () => Object.entries(kDemo).map(([name, tool]) => asTool(name, tool));

// The user's definitions, in the API's shape or without its wrapping. Throws what is wrong with them.
export function ownTools(text) {
  if (!text.trim()) return [];
  let list = JSON.parse(text);
  if (!Array.isArray(list)) list = [list];
  return list.map((tool, i) => {
    const definition = tool?.function ?? tool;
    if (typeof definition?.name !== 'string') throw new Error(`tool ${i + 1} has no name`);
    return { type: 'function', function: definition };
  });
}

// The result of a call of a tool that runs here, as text; undefined for all others.
export function runDemo(call) {
  const tool = Object.hasOwn(kDemo, call.function.name) ? kDemo[call.function.name] : undefined;
  if (!tool) return undefined;
  try {
    return JSON.stringify(tool.run(JSON.parse(call.function.arguments || '{}') ?? {}));
  } catch (error) {
    return JSON.stringify({ error: error.message });
  }
}
