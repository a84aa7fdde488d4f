package anabranch;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;

import io.delta.storage.HDFSLogStore;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's store of the logs of tables on local disks, but for one thing: a list from a version on asks for the status
 * of the files from there on. Delta's own asks for the status of each file of the log, at each trigger of a stream.
 */
public class LocalLogStore extends HDFSLogStore {
    public LocalLogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public Iterator<FileStatus> listFrom(Path from, Configuration configuration) throws IOException {
        FileSystem files = from.getFileSystem(configuration);
        if (!(files instanceof LocalFileSystem)) {
            return super.listFrom(from, configuration);
        }
        Path log = from.getParent();
        String[] names = ((LocalFileSystem) files).pathToFile(log).list();
        if (names == null) { // no folder, or it can't be read
            return super.listFrom(from, configuration);
        }
        Arrays.sort(names);
        int first = Arrays.binarySearch(names, from.getName());
        List<FileStatus> found = new ArrayList<FileStatus>();
        for (int i = first < 0 ? -first - 1 : first; i < names.length; i++) {
            Path path = new Path(log, new Path(null, null, names[i]));
            if (!LocalFileSystem.isChecksumFile(path)) {
                try {
                    found.add(files.getFileStatus(path));
                } catch (FileNotFoundException gone) { // removed since
                }
            }
        }
        return found.iterator();
    }
}
