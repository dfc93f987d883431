// Which databases a repository has.
#include <set>
#include <utility>

#include "base/text/coding.h"
#include "kv/database/database_open.h"
#include "kv/protocol/descriptor.h"
#include "runtime/agreement.h"

namespace quire::kv {
namespace {

// Lists the databases whose descriptor this rank sees, each name behind its length.
Status ListHere(const runtime::ContextState& context, std::string* names) {
  QUIRE_ASSIGN_OR_RETURN(const std::vector<io::FileInfo> entries,
                         context.fs->List(context.repository));
  for (const io::FileInfo& entry : entries) {
    if (!entry.is_directory) continue;
    QUIRE_ASSIGN_OR_RETURN(const bool is_database,
                           context.fs->Exists(DescriptorPath(context.DirectoryOf(entry.name))));
    if (is_database) base::PutLengthPrefixed(names, entry.name);
  }
  return Status();
}

}  // namespace

Result<std::vector<std::string>> ListDatabases(const runtime::ContextState& context) {
  std::string mine;
  const Status listed = ListHere(context, &mine);
  QUIRE_ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                         runtime::GatherAgreed(*context.exchange, listed, mine));
  std::set<std::string> names;
  Status read;
  for (const std::string& text : texts) {
    base::ByteReader reader(text);
    Slice name;
    while (read.ok() && !reader.rest().empty()) {
      if (reader.LengthPrefixed(&name)) {
        names.insert(std::string(name));
      } else {
        read = Status(Code::kCorruption, "a rank's list of databases ends inside a name");
      }
    }
  }
  std::vector<std::string> list(names.begin(), names.end());
  // All ranks return the list, or none does.
  QUIRE_RETURN_IF_ERROR(context.exchange->Agree(read));
  return list;
}

}  // namespace quire::kv
