// Commands are words, replies are JSON.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace harness {

inline std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c < 32 || c > 126 ? '?' : c;
    }
    return result + "\"";
}

inline std::string field(const char* name, double value) {
    char text[96];
    std::snprintf(text, sizeof text, "\"%s\": %.17g", name, value);
    return text;
}

inline std::string field(const char* name, bool value) {
    return std::string("\"") + name + "\": " + (value ? "true" : "false");
}

inline std::vector<std::string> split(const std::string& line) {
    std::vector<std::string> words;
    for (size_t at = 0; at < line.size();) {
        const size_t end = std::min(line.find(' ', at), line.size());
        words.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

}  // namespace harness
