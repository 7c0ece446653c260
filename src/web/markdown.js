// A small part of Markdown, as DOM nodes: headings, lists, quotes, tables, code, bold, italic, links. Text only
// ever becomes text nodes; nothing that a model writes is parsed as HTML.
export function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

const kInline = /(`+)([^]*?[^`])\1(?!`)|\*\*([^\s*](?:[^]*?[^\s])?)\*\*|\*([^\s*](?:[^*\n]*[^\s*])?)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s()<>]+)\)/;

// Pieces of a line; `depth` keeps hostile nesting off the stack.
function inline(text, depth = 0) {
  const nodes = [];
  while (text) {
    const found = depth < 4 ? kInline.exec(text) : null;
    if (!found) break;
    if (found.index > 0) nodes.push(text.slice(0, found.index));
    const [whole, ticks, code, bold, italic, label, address] = found;
    if (ticks) nodes.push(element('code', { textContent: code }));
    else if (bold) nodes.push(element('strong', {}, ...inline(bold, depth + 1)));
    else if (italic) nodes.push(element('em', {}, ...inline(italic, depth + 1)));
    else nodes.push(element('a', { href: address, target: '_blank', rel: 'noopener noreferrer' }, label));
    text = text.slice(found.index + whole.length);
  }
  if (text) nodes.push(text);
  return nodes;
}

function codeBlock(text, copy) {
  const button = element('button', { type: 'button', textContent: 'Copy' });
  button.addEventListener('click', () => copy(text, button));
  return element('div', { className: 'code' },
    element('pre', { tabIndex: 0 }, element('code', { textContent: text })), button);
}

function table(rows) {
  const cells = (row, name) => row.replace(/^\s*\||\|\s*$/g, '').split('|').map((cell) =>
    element(name, {}, ...inline(cell.trim())));
  return element('table', {},
    element('thead', {}, element('tr', {}, ...cells(rows[0], 'th'))),
    element('tbody', {}, ...rows.slice(2).map((row) => element('tr', {}, ...cells(row, 'td')))));
}

// One kind of block: lines that belong to it, and what they become.
const kBlocks = [
  { line: /^\s*[-*+] +/, make: (lines) => element('ul', {}, ...lines.map((line) =>
      element('li', {}, ...inline(line.replace(/^\s*[-*+] +/, ''))))) },
  { line: /^\s*\d{1,9}[.)] +/, make: (lines) => element('ol', { start: parseInt(lines[0], 10) }, ...lines.map((line) =>
      element('li', {}, ...inline(line.replace(/^\s*\d+[.)] +/, ''))))) },
  { line: /^> ?/, make: (lines) => element('blockquote', {}, ...inline(lines.map((line) =>
      line.replace(/^> ?/, '')).join('\n'))) },
  { line: /^\s*\|.*\|/, make: (lines) => /^[\s|:-]+$/.test(lines[1] ?? '') ? table(lines)
      : element('p', {}, ...inline(lines.join('\n'))) },
];

export function markdown(text, copy) {
  const blocks = document.createDocumentFragment();
  const lines = text.split('\n');
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = /^\s*(`{3,}|~{3,})/.exec(line);
    if (fence) {
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) ++end;
      blocks.append(codeBlock(lines.slice(at + 1, end).join('\n'), copy));
      at = end + 1;
      continue;
    }
    if (!line.trim()) { ++at; continue; }
    const heading = /^(#{1,6}) +(.*)$/.exec(line);
    if (heading) {
      blocks.append(element(heading[1].length < 3 ? 'h3' : 'h4', {}, ...inline(heading[2])));
      ++at;
      continue;
    }
    const block = kBlocks.find((kind) => kind.line.test(line));
    const belongs = (next) => block ? block.line.test(next)
      : next.trim() && !/^\s*(`{3,}|~{3,}|#{1,6} )/.test(next) && !kBlocks.some((kind) => kind.line.test(next));
    let end = at + 1;
    while (end < lines.length && belongs(lines[end])) ++end;
    const taken = lines.slice(at, end);
    if (block) blocks.append(block.make(taken));
    else {
      const paragraph = element('p', { className: 'plain' }, ...inline(taken.join('\n')));
      blocks.append(paragraph);
    }
    at = end;
  }
  return blocks;
}
