#include <quire/database.h>

#include <filesystem>
#include <iostream>

int main() {
  const std::string checkpoints = std::filesystem::absolute("hello-checkpoints");
  const quire::Status status = [&]() -> quire::Status {
    QUIRE_ASSIGN_OR_RETURN(auto context, quire::Context::OpenSerial("hello-first"));
    QUIRE_ASSIGN_OR_RETURN(auto greetings, context->Open("greetings", {}));
    QUIRE_RETURN_IF_ERROR(greetings->Put("rank 0", "hello"));
    QUIRE_ASSIGN_OR_RETURN(auto checkpoint, greetings->Checkpoint(checkpoints, {.keep = 2}));
    // The program computes and puts on here; the files are copied meanwhile.
    QUIRE_RETURN_IF_ERROR(checkpoint->Wait());
    QUIRE_RETURN_IF_ERROR(greetings->Close());

    // In another job, most often, and on any number of ranks.
    QUIRE_ASSIGN_OR_RETURN(auto later, quire::Context::OpenSerial("hello-later"));
    QUIRE_ASSIGN_OR_RETURN(auto restart,
                           later->Restart(checkpoints, "greetings", {.replace = true}));
    QUIRE_RETURN_IF_ERROR(restart->Wait());
    QUIRE_ASSIGN_OR_RETURN(auto restored, later->Open("greetings", {}));
    std::string value;
    QUIRE_RETURN_IF_ERROR(restored->Get("rank 0", &value));
    std::cout << "the checkpoint says " << value << "\n";
    return restored->Close();
  }();
  if (!status.ok()) std::cerr << status.ToString() << std::endl;
  return !status.ok();
}
