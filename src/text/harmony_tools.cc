#include "text/harmony_tools.h"

#include "text/typescript.h"

namespace rose::harmony {
namespace {

// Lines end in \n or \r\n; an end of line at the very end opens no further line.
std::vector<std::string_view> lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (end != line.npos && line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    if (end == text.npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace

std::string tools_section(const Namespaces& namespaces, SchemaStyle style) {
  std::string out = "# Tools";
  for (const auto& [key, space] : namespaces) {
    const bool functions = !space.tools.empty();
    out += "\n\n## " + space.name + "\n";
    if (space.description)
      for (const std::string_view line : lines(*space.description))
        (out += functions ? "\n// " : "\n") += line;
    if (!functions) continue;

    out += "\nnamespace " + space.name + " {\n";
    for (const Tool& tool : space.tools) {
      for (const std::string_view line : lines(tool.description)) (out += "\n// ") += line;
      out += "\ntype " + tool.name + " = (";
      if (tool.parameters) {
        out += "_: ";
        append_typescript(*tool.parameters, style, out);
      }
      out += ") => any;\n";
    }
    out += "\n} // namespace " + space.name;
  }
  return out;
}

}  // namespace rose::harmony
