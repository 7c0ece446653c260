// The web pages (src/web), which the build puts into the program.
#pragma once
#include <span>
#include <string_view>

namespace rose {

struct WebFile {
  std::string_view name;  // "chat.js"
  std::string_view type;  // of its content
  std::string_view body;
};

std::span<const WebFile> web_files();  // made by tools/embed_web.cmake

}  // namespace rose
